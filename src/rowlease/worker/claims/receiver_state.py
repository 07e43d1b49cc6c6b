"""The states of the receiver, the table of their transitions, and the time of the next claim.

    state        meaning                                                claims
    BUSY         the queues have requests                               when slots are free
    AWAKE        as BUSY, but they were empty less than a second ago    when slots are free
    RECHECKING   the queues are empty; an enqueue may be committing     at planned times, soon
    ASLEEP       the queues are empty                                   when notified, or at a time
    DRAINING     the worker is ending and delivers its outcomes         never
    CLOSING      as DRAINING, but ends at a time limit at the latest    never
    CLOSED       the receiver has ended                                 never

                 STILL_MORE
      ┌───────────────┬─────────────┐
      ▼               │             │
    BUSY            AWAKE ◀── RECHECKING, ASLEEP
      │               │  MORE       ▲
      └───────────────┴─────────────┘
         LAST: RECHECKING; NOTHING: ASLEEP

    any of these ──DRAIN──▶ DRAINING ──CLOSE──▶ CLOSING ──END──▶ CLOSED

A receiver that fails is CLOSED at once. A receiver that is closed before it drains is CLOSING at
once. In AWAKE, RECHECKING and ASLEEP, the worker is announced as idle, so that producers send
notifications. In these states outcomes do not wait for a claim. An outage of the database is not a
state: it delays the next call in every state (`rowlease.worker.calls`).
"""

from __future__ import annotations

import math
import random
from datetime import timedelta
from enum import Enum, auto

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
#: The longest sleep is `poll` times a random number between these, so that workers that started
#: together do not claim together.
SPREAD = (0.8, 1.2)
#: The shortest sleep, in seconds.
SHORTEST_SLEEP = 0.02
#: The longest sleep while a request is due that another transaction has locked, in seconds. Each of
#: these sleeps is twice as long as the one before.
LONGEST_LOCKED_SLEEP = 0.5
#: A notification wakes every idle worker, and one of them gets the request. So each worker has a
#: credit, which limits its claims that find nothing (decision 123 in docs/decisions). The credit
#: grows with time, and with each request that the worker gets after a notification, up to a limit.
#: A worker without credit claims a little later; meanwhile another worker may take the request.
CREDIT_A_SECOND = 10.0
CREDIT_OF_A_REQUEST = 3.0
MOST_CREDIT = 20.0
#: That wait is multiplied by a random number between these, so that workers do not claim together.
CREDIT_SPREAD = (0.5, 1.5)


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
        self._is_notified = False
        self._credit, self._credit_at = MOST_CREDIT, 0.0
        self.at = 0.0

    def at_once(self) -> None:
        """Claim as soon as slots are free."""
        self.at = 0.0

    def notified(self) -> None:
        """Claim at once, or as soon as there is credit for a claim that finds nothing."""
        if self._is_notified:
            return
        self._is_notified = True
        self._add_credit(0.0)
        if self._credit >= 1:
            self.at_once()
        else:
            wait = (1 - self._credit) / CREDIT_A_SECOND * random.uniform(*CREDIT_SPREAD)
            self.at = min(self.at, now() + wait)

    def note_found(self, has_found: bool) -> None:
        """Note whether a claim found requests."""
        if self._is_notified:
            self._is_notified = False
            self._add_credit(CREDIT_OF_A_REQUEST if has_found else -1.0)

    def _add_credit(self, credit: float) -> None:
        at = now()
        since = at - self._credit_at
        self._credit = min(MOST_CREDIT, self._credit + CREDIT_A_SECOND * since + credit)
        self._credit_at = at

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


class State(Enum):
    """A state of the receiver."""

    BUSY = auto()
    AWAKE = auto()
    RECHECKING = auto()
    ASLEEP = auto()
    DRAINING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Trigger(Enum):
    """An event that causes a transition."""

    #: Requests are still waiting after a claim, or every slot is taken.
    MORE = auto()
    #: As MORE, and no claim has emptied the queues for a second.
    STILL_MORE = auto()
    #: A claim got the last requests, or found none but will be repeated soon.
    LAST = auto()
    #: A claim found no requests, and the next claim follows after a sleep.
    NOTHING = auto()
    #: The worker has been announced as idle: producers send notifications.
    ANNOUNCED = auto()
    #: The worker stops.
    DRAIN = auto()
    #: The worker waits for the last outcomes to be delivered, up to a time limit.
    CLOSE = auto()
    #: Every outcome is delivered, or the time limit is reached, or the receiver has failed.
    END = auto()


#: The states after a claim that emptied the queues.
IDLE = (State.AWAKE, State.RECHECKING, State.ASLEEP)
#: The states in which the receiver claims.
CLAIMING = (State.BUSY, *IDLE)

_STOPPING = {
    Trigger.DRAIN: State.DRAINING,
    Trigger.CLOSE: State.CLOSING,
    Trigger.END: State.CLOSED,
}

#: The next state for each state and event. A missing pair is a bug.
TRANSITIONS: dict[State, dict[Trigger, State]] = {
    State.BUSY: {
        Trigger.STILL_MORE: State.BUSY,
        Trigger.LAST: State.RECHECKING,
        Trigger.NOTHING: State.ASLEEP,
        Trigger.ANNOUNCED: State.BUSY,
        **_STOPPING,
    },
    State.AWAKE: {
        Trigger.MORE: State.AWAKE,
        Trigger.STILL_MORE: State.BUSY,
        Trigger.LAST: State.RECHECKING,
        Trigger.NOTHING: State.ASLEEP,
        Trigger.ANNOUNCED: State.AWAKE,
        **_STOPPING,
    },
    State.RECHECKING: {
        Trigger.MORE: State.AWAKE,
        Trigger.STILL_MORE: State.BUSY,
        Trigger.LAST: State.RECHECKING,
        Trigger.NOTHING: State.ASLEEP,
        Trigger.ANNOUNCED: State.RECHECKING,
        **_STOPPING,
    },
    State.ASLEEP: {
        Trigger.MORE: State.AWAKE,
        Trigger.STILL_MORE: State.BUSY,
        Trigger.LAST: State.RECHECKING,
        Trigger.NOTHING: State.ASLEEP,
        Trigger.ANNOUNCED: State.RECHECKING,
        **_STOPPING,
    },
    State.DRAINING: {
        Trigger.ANNOUNCED: State.DRAINING,
        Trigger.CLOSE: State.CLOSING,
        Trigger.END: State.CLOSED,
    },
    State.CLOSING: {
        Trigger.ANNOUNCED: State.CLOSING,
        Trigger.END: State.CLOSED,
    },
    State.CLOSED: {},
}


def following(state: State, event: Trigger) -> State:
    """The state after an event.

    Raises:
        RuntimeError: the table has no such transition.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise RuntimeError(f"there is no transition from {state.name} for {event.name}") from None
