"""Disowns the leases of claims whose answers were lost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rowlease.clock import now
from rowlease.events import Disowned, Events
from rowlease.model import LeasedRequest, Outcome
from rowlease.store import Store

#: Seconds after the loss of a claim's answer during which the claim may still commit on the server.
LATE_COMMIT = 10.0
#: Seconds between two calls of `disown` in that time.
LATE_COMMIT_CHECK = 1.0


class LostClaims:
    """Tracks whether the database may have leases of this worker that the worker does not know.

    Attributes:
        check_at: when to call `disown` next.
        is_unsure: whether a claim's answer was lost since the last call of `disown`.
    """

    def __init__(self, worker_id: str, events: Events) -> None:
        self._worker_id = worker_id
        self._events = events
        self._late_until = 0.0
        self.check_at = math.inf
        self.is_unsure = False

    def add(self) -> None:
        """Record that the answer to a claim has just been lost."""
        self._late_until = now() + LATE_COMMIT
        self.check_at, self.is_unsure = now(), True

    def disown(self, store: Store, queues: Sequence[str], held: Sequence[LeasedRequest]) -> int:
        """Disown all leases of this worker except those of `held`; return the number disowned."""
        answers = store.disown(self._worker_id, queues, held)
        self.is_unsure = False
        at = now()
        self.check_at = at + LATE_COMMIT_CHECK if at < self._late_until else math.inf
        count = sum(outcome is Outcome.OK for _, outcome in answers)
        if count:
            self._events.emit(Disowned(count))
        return count
