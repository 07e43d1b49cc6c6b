"""The states of the receiver and the table of their transitions.

    state        meaning                                                claims
    BUSY         the queues have requests                               when slots are free
    AWAKE        they have, but were empty less than a second ago       when slots are free
    RECHECKING   the queues are empty, but a commit may be under way    at planned times, soon
    ASLEEP       the queues are empty                                   when notified, or at a time
    DRAINING     the worker ends, and delivers outcomes                 never
    CLOSING      the same, until a given time at the latest             never
    CLOSED       the receiver has ended                                 never

                 STILL_MORE
      ┌───────────────┬─────────────┐
      ▼               │             │
    BUSY            AWAKE ◀── RECHECKING, ASLEEP
      │               │  MORE       ▲
      └───────────────┴─────────────┘
         LAST: RECHECKING; NOTHING: ASLEEP

    any of these ──DRAIN──▶ DRAINING ──CLOSE──▶ CLOSING ──END──▶ CLOSED

A receiver that fails is CLOSED at once, and one that is closed before it drains is CLOSING at once.
In AWAKE, RECHECKING and ASLEEP the worker is announced as idle, so that producers send
notifications, and outcomes do not wait for a claim. An outage of the database is not a state: in
every state it delays the next call (`rowlease.worker.claims.outage`).
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """What the receiver is doing."""

    BUSY = auto()
    AWAKE = auto()
    RECHECKING = auto()
    ASLEEP = auto()
    DRAINING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Event(Enum):
    """What causes a transition."""

    #: A claim left requests that wait, or every slot is taken.
    MORE = auto()
    #: The same, and no claim has emptied the queues for a second.
    STILL_MORE = auto()
    #: A claim took the last requests, or found nothing and is to be repeated soon.
    LAST = auto()
    #: A claim found nothing.
    NOTHING = auto()
    #: The worker has been announced as idle: producers send notifications.
    ANNOUNCED = auto()
    #: The worker stops.
    DRAIN = auto()
    #: The worker waits until a given time for the last outcomes to be delivered.
    CLOSE = auto()
    #: Every outcome is delivered, or that time has come, or the receiver has failed.
    END = auto()


#: The states that follow a claim that emptied the queues.
IDLE = (State.AWAKE, State.RECHECKING, State.ASLEEP)
#: The states in which it claims.
CLAIMING = (State.BUSY, *IDLE)

_STOPPING = {Event.DRAIN: State.DRAINING, Event.CLOSE: State.CLOSING, Event.END: State.CLOSED}

#: For each state and event, the state that follows. A missing pair is a bug.
TRANSITIONS: dict[State, dict[Event, State]] = {
    State.BUSY: {
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.RECHECKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.BUSY,
        **_STOPPING,
    },
    State.AWAKE: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.RECHECKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.AWAKE,
        **_STOPPING,
    },
    State.RECHECKING: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.RECHECKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.RECHECKING,
        **_STOPPING,
    },
    State.ASLEEP: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.RECHECKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.RECHECKING,
        **_STOPPING,
    },
    State.DRAINING: {
        Event.ANNOUNCED: State.DRAINING,
        Event.CLOSE: State.CLOSING,
        Event.END: State.CLOSED,
    },
    State.CLOSING: {
        Event.ANNOUNCED: State.CLOSING,
        Event.END: State.CLOSED,
    },
    State.CLOSED: {},
}


def following(state: State, event: Event) -> State:
    """The state after an event.

    Raises:
        RuntimeError: the table has no such transition.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise RuntimeError(f"the receiver is {state.name}, where {event.name} is unknown") from None
