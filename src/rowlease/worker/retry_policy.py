"""What a worker makes of a call that the database refused: blame what was sent, bear it, or end."""

from __future__ import annotations

from rowlease.clock import now
from rowlease.errors import AccessDenied, ConfigError, InvalidRequest, SchemaMismatch, StoreError
from rowlease.worker.times import REFUSAL_TOLERATED


class RetryPolicy:
    """Of one thread: may the call that failed be made again later?

    Args:
        worked: the database has done before what is asked of it. Until then a refusal is a mistake
            in the settings, and is not borne.
    """

    def __init__(self, *, worked: bool = False) -> None:
        self._worked = worked
        self._refused_since: float | None = None

    def answered(self) -> None:
        """A call has succeeded."""
        self._worked = True
        self._refused_since = None

    def tolerates(self, error: Exception) -> bool:
        """A database that is away is borne for ever, a refusal for a minute."""
        if isinstance(error, StoreError) and error.transient:
            return True
        if not (self._worked and isinstance(error, StoreError | InvalidRequest)):
            return False
        at = now()
        if self._refused_since is None:
            self._refused_since = at
        return at - self._refused_since < REFUSAL_TOLERATED


def is_caused_by_data(error: Exception) -> bool:
    """May the call succeed with other values? Not if the database is away, or denies it to us.

    Some values make the driver itself fail, so any exception may be.
    """
    if isinstance(error, StoreError) and error.transient:
        return False
    return not isinstance(error, AccessDenied | SchemaMismatch | ConfigError)


def ascii_only(text: str) -> str:
    """The same in characters that every database holds."""
    return text.replace("\0", "\\0").encode("ascii", "backslashreplace").decode()
