"""Every transition of the receiver's states, each caused as in a worker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from rowlease.events import WorkerIdle
from rowlease.worker.attempt import Returned
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended, Outcomes
from rowlease.worker.claims.receiver import AWAKE_SECONDS
from rowlease.worker.claims.receiver_state import (
    CLAIMING,
    IDLE,
    TRANSITIONS,
    State,
    Trigger,
    following,
)
from tests.unit.receiver_world import EMPTY, World, found, request, world

__all__ = ["world"]


def claim_more(world: World) -> None:
    world.claims = [found(1)]
    world.receiver.notified()
    world.exchange_now()
    world.finish(world.taken[-1])


def claim_more_a_second_later(world: World) -> None:
    world.time += AWAKE_SECONDS + 0.1
    claim_more(world)


def claim_the_last(world: World) -> None:
    world.is_announced = True
    world.claims = [found(1, more=False)]
    world.receiver.notified()
    world.exchange_now()
    world.finish(world.taken[-1])


def claim_nothing(world: World) -> None:
    world.claims = [EMPTY]
    world.receiver.notified()
    world.exchange_now()


def announce(world: World) -> None:
    world.receiver.announced()
    world.pause()


def drain(world: World) -> None:
    world.receiver.drain()
    world.pause()


def close(world: World) -> None:
    world.receiver.close(world.time + 7)
    world.pause()


class Broken(BaseException):
    """An error that no part of the worker catches."""


def end(world: World) -> None:
    """End the receiver: by delivering everything if it was closed, else by an error."""

    def fail() -> None:
        raise Broken

    if world.receiver._state is not State.CLOSING:
        world.receiver.notified()
        world.exchanger.deliver(
            Outcomes([Ended(Lease(request(9), 0, None, world.time), Returned(None), 0.1)])
        )
        world.meanwhile = fail
    with suppress(Broken):
        world.receiver.run()


CAUSES: dict[Trigger, Callable[[World], None]] = {
    Trigger.MORE: claim_more,
    Trigger.STILL_MORE: claim_more_a_second_later,
    Trigger.LAST: claim_the_last,
    Trigger.NOTHING: claim_nothing,
    Trigger.ANNOUNCED: announce,
    Trigger.DRAIN: drain,
    Trigger.CLOSE: close,
    Trigger.END: end,
}
#: The events that lead a new receiver to each state.
WAYS: dict[State, list[Trigger]] = {
    State.BUSY: [],
    State.AWAKE: [Trigger.NOTHING, Trigger.MORE],
    State.RECHECKING: [Trigger.LAST],
    State.ASLEEP: [Trigger.NOTHING],
    State.DRAINING: [Trigger.LAST, Trigger.DRAIN],
    State.CLOSING: [Trigger.DRAIN, Trigger.CLOSE],
    State.CLOSED: [Trigger.CLOSE, Trigger.END],
}
KNOWN = [(state, event) for state, events in TRANSITIONS.items() for event in events]


@pytest.mark.parametrize(
    ("state", "event"), KNOWN, ids=[f"{state.name}-{event.name}" for state, event in KNOWN]
)
def test_a_receiver_makes_every_transition(world: World, state: State, event: Trigger) -> None:
    for each in WAYS[state]:
        CAUSES[each](world)
    assert world.receiver._state is state
    world.idleness.clear()
    world.emitted.clear()
    world.num_wakes = 0
    CAUSES[event](world)
    now_in = TRANSITIONS[state][event]
    assert world.receiver._state is now_in
    assert world.receiver.is_quiet == (now_in not in CLAIMING)
    announces = ["announce"] if state is State.BUSY and now_in in IDLE else []
    retracts = ["retract"] if state in IDLE and now_in is State.BUSY else []
    assert world.idleness == announces + retracts
    falls_asleep = now_in is State.ASLEEP and state is not now_in
    assert [one for one in world.emitted if isinstance(one, WorkerIdle)] == (
        [WorkerIdle(world.is_announced)] if falls_asleep else []
    )
    assert world.num_wakes == (state in CLAIMING and now_in not in CLAIMING)


@pytest.mark.parametrize("state", State)
def test_an_event_without_a_transition_is_refused(state: State) -> None:
    for event in set(Trigger) - set(TRANSITIONS[state]):
        with pytest.raises(RuntimeError, match=f"no transition from {state.name} for {event.name}"):
            following(state, event)


def test_a_busy_receiver_refuses_the_event_more(world: World) -> None:
    with pytest.raises(RuntimeError, match="no transition from BUSY for MORE"):
        world.receiver._on(Trigger.MORE)
    assert world.receiver._state is State.BUSY


def test_full_slots_wake_the_receiver(world: World) -> None:
    claim_nothing(world)
    world.held = world.capacity
    world.receiver._wait(0.0)
    assert world.receiver._state is State.AWAKE


def test_messages_take_effect_when_the_thread_reads_them(world: World) -> None:
    world.receiver.drain()
    assert not world.receiver.is_quiet
    world.pause()
    assert world.receiver.is_quiet
