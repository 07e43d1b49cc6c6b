"""Tracks an outage of the database: when it began, and when to call again."""

from __future__ import annotations

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, StoreLost, StoreRecovered
from rowlease.worker.call_retry_policy import CallRetryPolicy


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
