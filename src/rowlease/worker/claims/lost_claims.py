"""Claims whose answers were lost: what they leased is disowned."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rowlease.clock import now
from rowlease.events import Disowned, Events
from rowlease.model import LeasedRequest, Outcome
from rowlease.store import Consuming

#: Seconds for which a claim whose answer was lost may still run at the server, and commit; and
#: seconds between two looks at whether it has.
LATE_COMMIT, LATE_COMMIT_LOOK = 10.0, 1.0


class LostClaims:
    """Knows when the database may hold leases of this worker that the worker knows nothing of.

    Attributes:
        look_at: when to look for them.
        is_unsure: there may be some, and nobody has looked yet.
    """

    def __init__(self, worker_id: str, events: Events) -> None:
        self._worker_id = worker_id
        self._events = events
        self._late_until = 0.0
        self.look_at = math.inf
        self.is_unsure = False

    def add(self) -> None:
        """The answer to a claim has just been lost."""
        self._late_until = now() + LATE_COMMIT
        self.look_at, self.is_unsure = now(), True

    def disown(self, store: Consuming, queues: Sequence[str], held: Sequence[LeasedRequest]) -> int:
        """Disown all but these; how many requests that were."""
        answers = store.disown(self._worker_id, queues, held)
        self.is_unsure = False
        at = now()
        self.look_at = at + LATE_COMMIT_LOOK if at < self._late_until else math.inf
        count = sum(outcome is Outcome.OK for _, outcome in answers)
        if count:
            self._events.emit(Disowned(count))
        return count
