"""Computes when the receiver claims next, if slots are free."""

from __future__ import annotations

import math
import random

from rowlease.clock import now
from rowlease.model import Claim

#: The pauses, in seconds, before the claims that follow an announcement that the worker is idle. A
#: producer that looked for idle workers just before the announcement sends no notification, but may
#: commit a little later.
RECHECKS = (0.0, 0.02, 0.2)
#: Seconds after a claim until the database has dropped the unproven part of the claim's floor. From
#: then on, claims see requests that a late commit or `maintain` put below the floor
#: (docs/decisions/0011).
FLOOR_DROPPED = 1.1
#: The longest sleep of an idle worker that gets notifications, in seconds. A notification may get
#: lost.
POLL = 5.0
#: The longest sleep of an idle worker that gets no notifications, in seconds.
POLL_WITHOUT_NOTIFICATIONS = 1.0
#: The shortest sleep, in seconds. It applies when a request is due but could not be claimed.
SHORTEST_SLEEP = 0.02


class NextClaim:
    """The time of the next claim.

    Args:
        poll: the longest sleep in seconds while the queues are empty.

    Attributes:
        at: the time of the next claim; 0 means at once.
    """

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._rechecks: list[float] = []
        self._unsure_until = 0.0
        self.at = 0.0

    def at_once(self) -> None:
        """Claim as soon as slots are free."""
        self.at = 0.0

    def mark_unsure(self) -> None:
        """Sleep at most until requests below the floor become visible."""
        self._unsure_until = now() + FLOOR_DROPPED

    def plan_rechecks(self) -> None:
        """Plan a few claims before the next sleep: producers sent no notifications until now."""
        self._rechecks = list(RECHECKS)

    def later(self, claim: Claim) -> bool:
        """Plan the next claim after one that emptied the queues: a recheck, or one after a sleep.

        Returns:
            Whether a sleep was planned.
        """
        at = now()
        if self._rechecks:
            self.at = at + self._rechecks.pop(0)
            return False
        due_in = math.inf if claim.wait is None else claim.wait.total_seconds()
        unsure = self._unsure_until - at
        poll = unsure if unsure > 0 else self._poll * random.uniform(0.8, 1.2)
        self.at = at + min(max(due_in, SHORTEST_SLEEP), poll)
        return True
