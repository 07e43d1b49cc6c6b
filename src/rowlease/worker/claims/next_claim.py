"""Computes when the receiver claims next, if slots are free."""

from __future__ import annotations

import math
import random
from datetime import timedelta

from rowlease.clock import now
from rowlease.model import Claim

#: The pauses, in seconds, before each of the claims that follow the announcement that the worker is
#: idle. A producer that looked for idle workers just before the announcement sends no notification,
#: but may commit its requests a little later.
RECHECKS = (0.0, 0.02, 0.2)
#: Seconds after a claim until the database has lowered the claim's floor below all requests that an
#: open transaction could still commit. From then on, claims see requests that a late commit or
#: `maintain` put below the old floor (decision 11 in docs/decisions).
FLOOR_DROPPED = 1.1
#: The default of `poll`, in seconds, if the worker gets notifications. It must claim now and then,
#: because a notification may get lost.
POLL_SECONDS = 5.0
#: The default of `poll`, in seconds, if the worker gets no notifications.
POLL_WITHOUT_NOTIFICATIONS = 1.0
#: The longest sleep is `poll` times a random number between these, so that workers that started
#: together do not claim together.
SPREAD = (0.8, 1.2)
#: The shortest sleep, in seconds.
SHORTEST_SLEEP = 0.02
#: The longest sleep while a request is due that another transaction has locked, in seconds. Each of
#: these sleeps is twice as long as the one before.
LONGEST_LOCKED_SLEEP = 0.5


class NextClaim:
    """The time of the next claim.

    Args:
        poll: the longest sleep in seconds while the queues are empty, give or take 20 %.

    Attributes:
        at: the time of the next claim; 0 means at once.
    """

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._rechecks: list[float] = []
        self._unsure_until = 0.0
        self._locked_sleep = SHORTEST_SLEEP
        self.at = 0.0

    def at_once(self) -> None:
        """Claim as soon as slots are free."""
        self.at = 0.0

    def mark_unsure(self) -> None:
        """Have the next sleep end when claims see requests below the present floor again."""
        self._unsure_until = now() + FLOOR_DROPPED

    def plan_rechecks(self) -> None:
        """Plan a few more claims before the next sleep: producers notify only from now on."""
        self._rechecks = list(RECHECKS)

    def later(self, claim: Claim) -> bool:
        """Plan the next claim after one that emptied the queues: soon, or after a sleep.

        Returns:
            Whether a sleep was planned.
        """
        at = now()
        if self._rechecks:
            self.at = at + self._rechecks.pop(0)
            return False
        due_in = math.inf if claim.wait is None else claim.wait.total_seconds()
        unsure = self._unsure_until - at
        poll = unsure if unsure > 0 else self._poll * random.uniform(*SPREAD)
        if claim.wait == timedelta(0):
            due_in = self._locked_sleep
            self._locked_sleep = min(2 * due_in, LONGEST_LOCKED_SLEEP)
        else:
            self._locked_sleep = SHORTEST_SLEEP
        self.at = at + min(max(due_in, SHORTEST_SLEEP), poll)
        return True
