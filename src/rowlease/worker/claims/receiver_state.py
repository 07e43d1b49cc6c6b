"""The states of the receiver and the table of their transitions.

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
state: it delays the next call in every state (`rowlease.worker.claims.outage`).
"""

from __future__ import annotations

from enum import Enum, auto


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
