"""Decides after a failed call whether to repeat it, to send other values, or to end the worker."""

from __future__ import annotations

from rowlease.clock import now
from rowlease.errors import AccessDenied, ConfigError, InvalidRequest, SchemaMismatch, StoreError
from rowlease.worker.timings import REFUSAL_TOLERATED


class CallRetryPolicy:
    """Decides whether a failed call of one kind may be repeated later.

    Args:
        worked: whether such a call has succeeded before. A refusal before the first success is
            treated as a mistake in the settings.
    """

    def __init__(self, *, worked: bool = False) -> None:
        self._worked = worked
        self._refused_since: float | None = None

    def answered(self) -> None:
        """Record a call that succeeded."""
        self._worked = True
        self._refused_since = None

    def tolerates(self, error: Exception) -> bool:
        """Whether to repeat the call after this error.

        A call is always repeated after a transient error. After a refusal, it is repeated for a
        minute, if a call has succeeded before.
        """
        if isinstance(error, StoreError) and error.transient:
            return True
        if not (self._worked and isinstance(error, StoreError | InvalidRequest)):
            return False
        at = now()
        if self._refused_since is None:
            self._refused_since = at
        return at - self._refused_since < REFUSAL_TOLERATED


def is_caused_by_data(error: Exception) -> bool:
    """Whether a call that raised this error might succeed with other arguments.

    Other arguments cannot help if the database is unavailable, or if rights or routines are
    missing. The arguments may be the cause of any other exception, including the driver's.
    """
    if isinstance(error, StoreError) and error.transient:
        return False
    return not isinstance(error, AccessDenied | SchemaMismatch | ConfigError)


def ascii_only(text: str) -> str:
    """The string with NUL and all non-ASCII characters escaped. Every database can store it."""
    return text.replace("\0", "\\0").encode("ascii", "backslashreplace").decode()
