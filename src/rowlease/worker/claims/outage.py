"""A database that is away: since when, and when to call it again."""

from __future__ import annotations

import random

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, StoreLost, StoreRecovered
from rowlease.worker.retry_policy import RetryPolicy

#: Seconds between tries while the database is away: doubled each time, half of it random.
FIRST_RETRY, LAST_RETRY = 0.1, 5.0


class Outage:
    """What one thread knows of the database from its own calls.

    Attributes:
        since: when a call failed first, if the last one did.
        retry_at: when to make the next call, after one that failed.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._patience = RetryPolicy()
        self._pause = 0.0
        self.since: float | None = None
        self.retry_at = 0.0

    def failed(self, error: RowleaseError) -> None:
        """A call has failed: put the next one off.

        Raises:
            RowleaseError: this error, if trying again is no use.
        """
        if not self._patience.bears(error):
            raise error
        at = now()
        if self.since is None:
            self.since = at
            self._events.emit(StoreLost(str(error)))
        self._pause = min(LAST_RETRY, max(FIRST_RETRY, 2 * self._pause))
        self.retry_at = at + self._pause * random.uniform(0.5, 1)

    def answered(self) -> None:
        """A call has succeeded."""
        self._patience.answered()
        if self.since is not None:
            self._events.emit(StoreRecovered(now() - self.since))
            self.since = None
            self._pause = 0.0

    def retry_now(self) -> None:
        """The next call need not wait any longer."""
        self.retry_at = 0.0
