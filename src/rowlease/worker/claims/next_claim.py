"""When the receiver is to claim next, if slots are free."""

from __future__ import annotations

import math
import random

from rowlease.clock import now
from rowlease.model import Claim

#: Seconds after announcing idleness at which to claim once more: a producer that looked just before
#: sends no notification, and may commit a little later.
LOOKS = (0.0, 0.02, 0.2)
#: Seconds after a claim until its floor is dropped: by then a look shows what a late commit, or
#: `maintain`, had put below it (docs/decisions/0011).
FLOOR_DROPPED = 1.1
#: Seconds an idle worker sleeps at most: notifications may be lost, or there may be none.
POLL, POLL_WITHOUT_NOTIFICATIONS = 5.0, 1.0
#: Seconds an idle worker sleeps at least when something is due but could not be had.
SHORTEST_SLEEP = 0.02


class NextClaim:
    """The time of the next claim.

    Args:
        poll: seconds to sleep at most while the queues are empty.

    Attributes:
        at: the time; 0 means at once.
    """

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._looks: list[float] = []
        self._unsure_until = 0.0
        self.at = 0.0

    def at_once(self) -> None:
        """Claim as soon as slots are free."""
        self.at = 0.0

    def mark_unsure(self) -> None:
        """Requests have come or gone: until the floor is dropped, late ones may be below it."""
        self._unsure_until = now() + FLOOR_DROPPED

    def plan_looks(self) -> None:
        """Claim a few times more before sleeping: until now producers sent no notifications."""
        self._looks = list(LOOKS)

    def later(self, claim: Claim) -> bool:
        """This claim has left nothing: claim at the next of the planned times, or else sleep.

        Returns:
            Whether it sleeps, until something is due or may be.
        """
        at = now()
        if self._looks:
            self.at = at + self._looks.pop(0)
            return False
        due_in = math.inf if claim.wait is None else claim.wait.total_seconds()
        unsure = self._unsure_until - at
        poll = unsure if unsure > 0 else self._poll * random.uniform(0.8, 1.2)
        self.at = at + min(max(due_in, SHORTEST_SLEEP), poll)
        return True
