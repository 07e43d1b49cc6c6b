"""What follows a failed call: another try, other values, or the end of the worker."""

from __future__ import annotations

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    RowleaseError,
    SchemaMismatch,
    StoreError,
)
from rowlease.events import Events, StoreLost, StoreRecovered
from rowlease.worker.timings import REFUSAL_TOLERATED


class Outage:
    """Whether the database is available, as seen by the calls of one thread.

    Attributes:
        since: when the first call failed; None while calls succeed.
        retry_at: the earliest time for the next call.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._retry_policy = CallRetryPolicy()
        self._pauses = Backoff(0.1, 5.0)
        self.since: float | None = None
        self.retry_at = 0.0

    def failed(self, error: RowleaseError) -> None:
        """Record a call that failed, and delay the next one.

        Raises:
            RowleaseError: `error`, if a retry cannot help.
        """
        if not self._retry_policy.tolerates(error):
            raise error
        at = now()
        if self.since is None:
            self.since = at
            self._events.emit(StoreLost(str(error)))
        self.retry_at = at + next(self._pauses)

    def answered(self) -> None:
        """Record a call that succeeded."""
        self._retry_policy.answered()
        if self.since is not None:
            self._events.emit(StoreRecovered(now() - self.since))
            self.since = None
            self._pauses.reset()

    def retry_now(self) -> None:
        """Allow the next call without a pause."""
        self.retry_at = 0.0


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
