"""The states of the receiver, and what leads from one to another.

    state      meaning                                               it claims
    BUSY       the queues have requests                              when slots are free
    AWAKE      they have, but less than a second ago they had none   when slots are free
    LOOKING    nothing is left, but more may be on its way           at times soon after
    ASLEEP     nothing is there                                      when notified, or at a time
    DRAINING   the worker ends, and delivers outcomes                never
    CLOSING    the same, until a given time at the latest            never
    CLOSED     it has ended                                          never

                 STILL_MORE
      ┌───────────────┬─────────────┐
      ▼               │             │
    BUSY            AWAKE ◀── LOOKING, ASLEEP
      │               │  MORE       ▲
      └───────────────┴─────────────┘
         LAST: LOOKING; NOTHING: ASLEEP

    any of these ──DRAIN──▶ DRAINING ──CLOSE──▶ CLOSING ──END──▶ CLOSED

A receiver that fails is CLOSED at once, and one that is closed before it drains is CLOSING at once.
In AWAKE, LOOKING and ASLEEP producers are to send notifications, and outcomes do not wait for a
claim to travel with. A database that is away is no state: in each of them the next call is put off
(`rowlease.worker.claims.outage`).
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """What the receiver is doing."""

    BUSY = auto()
    AWAKE = auto()
    LOOKING = auto()
    ASLEEP = auto()
    DRAINING = auto()
    CLOSING = auto()
    CLOSED = auto()


class Event(Enum):
    """What leads from one state to another."""

    #: There is more than was claimed, or every slot is taken.
    MORE = auto()
    #: The same, and no claim has left the queues empty for a second.
    STILL_MORE = auto()
    #: A claim took all there was, or is to be repeated soon.
    LAST = auto()
    #: A claim found nothing.
    NOTHING = auto()
    #: Producers send notifications from now on.
    ANNOUNCED = auto()
    #: The worker stops.
    DRAIN = auto()
    #: The worker waits only until a given time.
    CLOSE = auto()
    #: All is delivered, or that time has come, or the receiver has failed.
    END = auto()


#: The states after a claim that left the queues empty.
IDLE = (State.AWAKE, State.LOOKING, State.ASLEEP)
#: The states in which it claims.
CLAIMING = (State.BUSY, *IDLE)

_STOPPING = {Event.DRAIN: State.DRAINING, Event.CLOSE: State.CLOSING, Event.END: State.CLOSED}

#: The state that follows, for each state and event. A pair that is missing is a mistake.
TRANSITIONS: dict[State, dict[Event, State]] = {
    State.BUSY: {
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.LOOKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.BUSY,
        **_STOPPING,
    },
    State.AWAKE: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.LOOKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.AWAKE,
        **_STOPPING,
    },
    State.LOOKING: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.LOOKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.LOOKING,
        **_STOPPING,
    },
    State.ASLEEP: {
        Event.MORE: State.AWAKE,
        Event.STILL_MORE: State.BUSY,
        Event.LAST: State.LOOKING,
        Event.NOTHING: State.ASLEEP,
        Event.ANNOUNCED: State.LOOKING,
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
