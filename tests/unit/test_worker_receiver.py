"""When the receiver exchanges, by a clock that a test moves; and the pump below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import RoutineError, StoreUnavailable
from rowlease.events import (
    Abandoned,
    BellLost,
    Claimed,
    Event,
    Events,
    Failed,
    Finished,
    LeaseLost,
    StoreLost,
    StoreRecovered,
    WorkerIdle,
)
from rowlease.model import Claim, Exchanged, Failure, LeasedRequest, Outcome
from rowlease.tasks import Registry, Task
from rowlease.worker import pump as pump_module
from rowlease.worker import receiver as receiver_module
from rowlease.worker.bell import Bell
from rowlease.worker.leases import Lease
from rowlease.worker.pump import Done, NotDone, Outcomes, Pump
from rowlease.worker.receiver import (
    FIRST_RETRY,
    FLOOR_DROPPED,
    FLUSH,
    LAST_RETRY,
    STILL_IDLE,
    Receiver,
)
from rowlease.worker.turns import Turns

AT = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = Claim([], more=False, wait=None, floor="f")


def request(number: int, kind: str = "print") -> LeasedRequest:
    ends = AT + timedelta(seconds=30)
    return LeasedRequest(
        *(number, "default", kind, 0, AT, AT, AT, ends, 1, 1, 5, 0, None, None), payload="{}"
    )


class World:
    """A store, slots, leases and a bell, all in one, and a receiver with its pump among them."""

    def __init__(self, *, burst: bool = False, bell: bool = True) -> None:
        self.time = 1000.0
        self.capacity, self.idle, self.held = 2, 2, 0
        self.claims: list[Claim] = []
        self.calls: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.took = 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        self.outcomes: dict[int, Outcome] = {}
        self.taken: list[Lease] = []
        self.renewed: list[Lease] = []
        self.bell: list[str] = []
        self.is_announced = False
        self.ended = False
        self.heard: list[Event] = []
        events = Events()
        events.subscribe(self.heard.append)
        this: Any = self
        self.pump = Pump(this, "w", Turns(["default"]), Registry([Task(print)]), this, events)
        self.receiver = Receiver(
            self.pump,
            this,
            events,
            bell=this if bell else None,
            poll=5.0,
            drained=self.end if burst else None,
        )

    # What the receiver and the pump use of their neighbours.

    def exchange(self, worker: str, queues: list[str], limit: int, **given: Any) -> Exchanged:
        self.calls.append({"limit": limit, **given})
        self.time += self.took
        self.meanwhile()
        if self.error:
            raise self.error
        claim = self.claims.pop(0) if limit and self.claims else EMPTY
        completed, failed = (
            [self.outcomes.get(held.request_id, Outcome.OK) for held, _ in given[which]]
            for which in ("completed", "failed")
        )
        return Exchanged(completed, failed, claim)

    def abandon(self, held: Sequence[LeasedRequest]) -> list[Outcome]:
        self.calls.append({"abandoned": [one.request_id for one in held]})
        return [self.outcomes.get(one.request_id, Outcome.OK) for one in held]

    def take(self, leases: list[Lease]) -> None:
        self.taken += leases
        self.held += len(leases)
        self.idle = max(0, self.idle - len(leases))

    def add(self, leases: list[Lease]) -> None:
        self.renewed += leases

    def announce(self) -> None:
        self.bell.append("announce")

    def retract(self) -> None:
        self.bell.append("retract")

    def end(self) -> None:
        self.ended = True

    # What a test does.

    def pause(self) -> float:
        return self.receiver._pause()

    def exchange_now(self) -> dict[str, Any]:
        assert self.pause() <= 0
        self.receiver._exchange()
        return self.calls[-1]

    def finish(self, *leases: Lease) -> None:
        """As the dispatcher does when tasks have returned."""
        self.pump.deliver(Outcomes(done=[Done(one, None, 0.1) for one in leases]))
        self.held -= len(leases)
        self.idle += len(leases)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    world = World(**getattr(request, "param", {}))
    for module in (receiver_module, pump_module):
        monkeypatch.setattr(module, "now", lambda: world.time)
    return world


def found(*numbers: int, more: bool = True, **given: Any) -> Claim:
    return Claim([request(n, **given) for n in numbers], more=more, wait=None, floor="f")


def test_free_slots_are_filled_at_once_and_full_ones_wait(world: World) -> None:
    world.claims = [found(1, 2)]
    call = world.exchange_now()
    assert (call["limit"], call["slots"]) == (2, 2)
    assert [one.request.request_id for one in world.taken] == [1, 2]
    assert world.renewed == world.taken
    assert world.taken[0].ends == 1000.0 + 30
    assert world.pause() == float("inf")
    world.finish(world.taken[0])
    call = world.exchange_now()
    assert (call["limit"], call["slots"]) == (1, 1)
    assert [held.request_id for held, _ in call["completed"]] == [1]


def test_half_of_what_is_held_ahead_is_used_up_before_more_is_claimed(world: World) -> None:
    world.capacity, world.idle, world.held = 102, 0, 52
    assert world.pause() == float("inf")
    world.held = 51
    assert world.pause() <= 0
    world.held, world.idle = 60, 1
    assert world.pause() <= 0


def test_outcomes_wait_a_little_for_a_claim_to_travel_with(world: World) -> None:
    world.capacity, world.idle, world.held = 102, 0, 102
    world.finish(Lease(request(1), 0, None, world.time))
    world.idle = 0
    assert world.pause() == pytest.approx(FLUSH)
    world.time += FLUSH
    assert world.exchange_now()["limit"] == 1


def test_the_next_claim_goes_out_while_the_other_half_runs(world: World) -> None:
    world.capacity, world.took = 102, 0.010
    world.claims = [found(*range(1, 103))]
    world.exchange_now()
    world.idle = 0
    world.finish(*world.taken[:50])
    world.idle = 0
    assert world.pause() > 0
    world.finish(world.taken[50])
    world.idle = 0
    assert world.pause() <= 0


def test_outcomes_go_out_at_once_when_the_queue_was_empty(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.exchange_now()
    assert world.pause() > 1
    world.finish(world.taken[0])
    assert len(world.exchange_now()["completed"]) == 1


def test_an_idle_worker_announces_itself_and_looks_three_times_more(world: World) -> None:
    world.exchange_now()
    assert world.bell == ["announce"]
    assert world.pause() == pytest.approx(5.0, rel=0.2)
    world.is_announced = True
    world.receiver.announced()
    world.exchange_now()
    pauses = []
    for _ in range(3):
        pauses.append(world.pause())
        world.time += max(0.0, pauses[-1])
        world.exchange_now()
    assert pauses == [pytest.approx(0.0), pytest.approx(0.02), pytest.approx(0.2)]
    assert world.heard[-1] == WorkerIdle(announced=True)


def test_a_sleeper_looks_once_more_when_its_floor_is_dropped(world: World) -> None:
    world.receiver.ring()
    world.claims = [Claim([], more=False, wait=timedelta(seconds=0.5), floor="f")]
    world.exchange_now()
    world.time += world.pause()
    world.exchange_now()
    assert world.time + world.pause() == pytest.approx(1000 + FLOOR_DROPPED)
    world.time += world.pause()
    world.exchange_now()
    assert world.pause() == pytest.approx(5.0, rel=0.21)


@pytest.mark.parametrize(
    ("wait", "pause"), [(0.0, 0.02), (0.7, 0.7), (60.0, 5.0)], ids=["now", "soon", "far"]
)
def test_an_idle_worker_wakes_when_something_is_due(
    world: World, wait: float, pause: float
) -> None:
    world.claims = [Claim([], more=False, wait=timedelta(seconds=wait), floor=None)]
    world.exchange_now()
    assert world.pause() == pytest.approx(pause, rel=0.21)


def test_an_answer_that_says_more_is_asked_again_at_once(world: World) -> None:
    world.claims = [Claim([], more=True, wait=None, floor=None), found(1)]
    world.exchange_now()
    assert world.exchange_now()["limit"] == 2
    assert world.taken


def test_who_took_the_only_one_waits_for_the_bell(world: World) -> None:
    world.claims = [found(1, more=False)]
    world.exchange_now()
    assert world.pause() <= 0  # nobody rings yet
    world.exchange_now()
    world.is_announced = True
    world.finish(world.taken[0])
    world.claims = [found(2, more=False)]
    world.exchange_now()
    assert world.pause() == pytest.approx(FLOOR_DROPPED)  # a late commit may be below the floor
    world.receiver.ring()
    world.claims = [found(3)]
    world.exchange_now()
    assert world.taken[-1].request.request_id == 3
    assert len([event for event in world.heard if isinstance(event, WorkerIdle)]) == 1


def test_who_took_several_claims_on(world: World) -> None:
    world.exchange_now()
    world.is_announced = True
    world.capacity = world.idle = 5
    world.claims = [found(1, 2, more=False)]
    world.receiver.ring()
    world.exchange_now()
    assert world.pause() <= 0


@pytest.mark.parametrize("world", [{"bell": False}], indirect=True)
def test_who_has_no_bell_claims_until_there_is_nothing(world: World) -> None:
    world.claims = [found(1, more=False)]
    world.exchange_now()
    assert world.pause() <= 0


def test_who_is_busy_for_long_is_announced_no_more(world: World) -> None:
    world.exchange_now()
    world.is_announced = True
    world.claims = [found(1), found(2), found(3)]
    world.receiver.ring()
    world.exchange_now()
    assert world.bell == ["announce"]
    world.time += STILL_IDLE + 0.1
    world.receiver.ring()
    world.exchange_now()
    assert world.bell == ["announce", "retract"]


def test_full_slots_are_busy_too(world: World) -> None:
    world.exchange_now()
    world.held = 2
    world.time += STILL_IDLE + 0.1
    world.receiver._wait(0.0)
    assert world.bell == ["announce", "retract"]


@pytest.mark.parametrize("world", [{"burst": True, "bell": False}], indirect=True)
def test_a_burst_ends_when_nothing_is_found_and_nothing_held(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.exchange_now()
    assert not world.ended
    world.finish(world.taken[0])
    assert world.exchange_now()["floor"] == "f"
    assert not world.ended  # the floor may hide what a late commit has put below it
    assert world.exchange_now()["floor"] is None
    assert world.ended


def test_a_ring_during_a_claim_is_not_lost(world: World) -> None:
    """The claim may have looked before what it rings for was there."""
    world.exchange_now()
    world.meanwhile = world.receiver.ring
    world.receiver.ring()
    world.exchange_now()
    world.meanwhile = lambda: None
    world.exchange_now()
    assert world.pause() > 0


def test_a_store_that_is_away_is_tried_again_ever_later(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.finish(world.taken[0])
    world.error = StoreUnavailable("away")
    pauses = []
    for _ in range(9):
        world.exchange_now()
        pauses.append(world.pause())
        world.time += pauses[-1]
    for n, pause in enumerate(pauses):
        longest = min(LAST_RETRY, FIRST_RETRY * 2**n)
        assert longest / 2 <= pause <= longest
    world.error = None
    call = world.exchange_now()
    assert [held.request_id for held, _ in call["completed"]] == [1]
    assert [type(event) for event in world.heard if "Store" in type(event).__name__] == [
        StoreLost,
        StoreRecovered,
    ]
    assert world.pump.undelivered == 0


def test_a_ring_is_not_lost_with_a_claim_that_failed(world: World) -> None:
    world.exchange_now()
    world.receiver.ring()
    world.error = StoreUnavailable("away")
    world.exchange_now()
    world.error = None
    world.time += world.pause()
    world.claims = [found(1)]
    world.exchange_now()
    assert world.taken


def test_a_store_that_refuses_for_good_ends_the_receiver(world: World) -> None:
    world.error = RoutineError("wrong")
    with pytest.raises(RoutineError):
        world.receiver.run()
    assert world.receiver.is_quiet


def test_what_is_left_at_the_end_is_delivered_or_given_up_in_time(world: World) -> None:
    world.claims = [found(1)]
    world.exchange_now()
    world.receiver.drain()
    assert world.pause() == float("inf")
    world.finish(world.taken[0])
    world.error = StoreUnavailable("away")
    world.receiver.close(world.time + 7)
    world.exchange_now()
    world.time += 8
    world.receiver.run()
    assert world.pump.undelivered == 1
    world.error = None
    world.receiver.close(world.time + 7)
    world.receiver.run()
    assert world.pump.undelivered == 0
    assert world.calls[-1]["limit"] == 0


# -- the pump ------------------------------------------------------------------------------------


def test_outcomes_are_counted_and_told_by_what_the_database_said(world: World) -> None:
    leases = [Lease(request(n), 0, None, world.time) for n in range(1, 7)]
    world.outcomes = {
        2: Outcome.LEASE_LOST,
        3: Outcome.REPEAT,
        5: Outcome.NOT_FOUND,
        6: Outcome.LEASE_LOST,
    }
    no = Failure("no")
    world.pump.deliver(
        Outcomes(
            [Done(one, '"x"', 0.5) for one in leases[:3]],
            [NotDone(one, no, 0.5) for one in leases[3:5]],
            leases[5:],
        )
    )
    assert world.pump.undelivered == 6
    assert world.pump.exchange(0, 0) == ([], None)
    assert world.pump.undelivered == 0
    assert world.heard == [
        LeaseLost(leases[5].request, Outcome.LEASE_LOST),
        LeaseLost(leases[1].request, Outcome.LEASE_LOST),
        Finished(leases[0].request, 0.5),
        Finished(leases[2].request, 0.5),
        LeaseLost(leases[4].request, Outcome.NOT_FOUND),
        Failed(leases[3].request, 0.5, "no", False),
    ]
    counts = world.pump.counts
    assert (counts.finished, counts.failed, counts.abandoned, counts.lost) == (2, 1, 0, 3)


def test_an_exchange_without_anything_to_say_is_no_call(world: World) -> None:
    assert world.pump.exchange(0, 0) == ([], None)
    world.pump.deliver(Outcomes(abandoned=[Lease(request(1), 0, None, world.time)]))
    world.pump.exchange(0, 0)
    assert world.calls == [{"abandoned": [1]}]
    assert world.heard == [Abandoned(request(1))]


def test_a_request_of_an_unknown_kind_is_failed_with_the_next_exchange(world: World) -> None:
    world.claims = [found(1, 2, kind="nobody")]
    world.exchange_now()
    assert world.taken == []
    assert world.pump.counts.claimed == 2
    assert [type(event) for event in world.heard] == [Claimed]
    ((first, failure), _) = world.exchange_now()["failed"]
    assert first.request_id == 1
    assert failure == Failure("no task is named 'nobody'; known are: print")


def test_results_that_are_all_empty_are_not_sent_as_null_json(world: World) -> None:
    lease = Lease(request(1), 0, None, world.time)
    world.pump.deliver(Outcomes(done=[Done(lease, None, 0.1)]))
    world.pump.exchange(0, 0)
    assert world.calls[0]["completed"] == [(lease.request, None)]


# -- the bell ------------------------------------------------------------------------------------


class Doorbells:
    """A store whose doorbells do what a script says, step by step."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.did: list[str] = []
        self.bell: Bell | None = None

    def doorbell(self, queues: Sequence[str]) -> Doorbells:
        self.did.append("connect")
        return self

    def announce_idle(self, idle: bool) -> None:
        self.did.append("idle" if idle else "busy")

    def wait(self, timeout: timedelta) -> bool:
        step = self.script.pop(0) if self.script else "stop"
        assert self.bell
        if isinstance(step, Exception):
            raise step
        if step == "stop":
            self.bell.stop()
        elif step == "announce":
            self.bell.announce()
        elif step == "retract":
            self.bell.retract()
        return step == "ring"

    def close(self) -> None:
        self.did.append("close")

    def ring(self) -> None:
        self.did.append("rung")

    def announced(self) -> None:
        self.did.append("announced")


def test_a_bell_announces_when_asked_rings_and_comes_back_after_a_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rowlease.worker.bell.FIRST_RETRY", 0.0)
    lost = OSError("cut off")
    store = Doorbells("announce", "ring", "retract", "announce", lost, lost, "ring")
    heard: list[Event] = []
    events = Events()
    events.subscribe(heard.append)
    store.bell = Bell(store, ["default"], events)  # type: ignore[arg-type]
    monkeypatch.setattr("rowlease.worker.bell.QUIET_WAIT", 0.0)
    store.bell.run(store)
    assert store.did == [
        *("connect", "idle", "announced", "rung", "busy", "idle", "announced", "close"),
        *("connect", "idle", "announced", "close"),
        *("connect", "idle", "announced", "rung", "close"),
    ]
    assert heard == [BellLost("cut off"), BellLost("cut off")]
    assert not store.bell.is_announced
