"""The dispatcher's decisions, on scripted slots and a scripted clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.events import Event, Events, Started
from rowlease.model import Failure, LeasedRequest
from rowlease.worker.attempt import Ending, Returned
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended, Outcomes
from rowlease.worker.slots import dispatcher as dispatcher_module
from rowlease.worker.slots.dispatcher import DRAINED_PAUSE, Dispatcher
from rowlease.worker.slots.slot import Death

AT = datetime(2026, 1, 1, tzinfo=UTC)
TINY = 1e-5  # seconds
NO_RESULT = Returned(None)


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


class Slot:
    """A child process that runs nothing."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.held: deque[Lease | None] = deque()
        self.end_reason: str | None = None
        self.num_blocked = 0
        self.may_run = math.inf
        self.take_back_at: float | None = None
        self.since: float | None = None
        self.kills = 0
        self.is_coroutine = False
        self.stopped: list[int] = []

    @property
    def num_slots(self) -> int:
        return int(self.end_reason is None)

    @property
    def num_left(self) -> float:
        return self.may_run

    @property
    def load(self) -> int:
        return len(self.held)

    @property
    def num_busy(self) -> int:
        return int(self.load > 0)

    @property
    def num_idle(self) -> int:
        return int(self.load == 0)

    def give(self, leases: Sequence[Lease]) -> None:
        if not self.held:
            self.since = self.clock.time
        self.held += leases
        for lease in leases:
            lease.runner, lease.number = self, lease.request.request_id

    def progress(self, number: int) -> tuple[float, str] | None:
        return None

    def has_begun(self, number: int) -> bool:
        head = self.held[0] if self.held else None
        return head is not None and head.number == number

    def stop(self, number: int) -> None:
        self.stopped.append(number)

    def prolong(self, number: int, ends: float) -> None: ...

    def running(self) -> list[tuple[Lease, float]]:
        if not self.held or self.held[0] is None or self.since is None:
            return []
        return [(self.held[0], self.since)]

    def next_up(self) -> list[Lease]:
        return [lease for lease, _ in self.running()]

    def start_take_back(self, at: float) -> None:
        self.take_back_at = at + 0.01

    def finish_take_back(self) -> list[Lease]:
        self.take_back_at = None
        back = [one for one in list(self.held)[1:] if one]
        self.held = deque(list(self.held)[:1])
        return back

    def cancels(self, lease: Lease) -> bool:
        return self.is_coroutine

    def end(self, lease: Lease, why: str) -> None:
        if self.end_reason is None:
            self.end_reason = why
            self.kills += 1

    def give_up(self) -> tuple[list[Lease], list[Lease]]:
        self.kills += 1
        ran, others = self.next_up(), self.finish_take_back()
        self.held.clear()
        return ran, others


class World:
    """A dispatcher, and the slots, the exchanger and the leases that it uses, in one object."""

    def __init__(self, clock: Clock, slots: int, prefetch: int = 100) -> None:
        self.clock = clock
        self.runners = [Slot(clock) for _ in range(slots)]
        self.outcomes = Outcomes()
        self.dropped: list[Lease] = []
        self.answers: list[Ended[Ending]] = []
        self.deaths: list[Death] = []
        self.pause = 0.0
        self.emitted: list[Event] = []
        self.ids = iter(range(1, 10_000))
        events = Events()
        events.subscribe(self.emitted.append)
        this: Any = self
        self.dispatcher = Dispatcher(this, this, events, prefetch=prefetch, cancel_grace=10.0)

    # The methods that the dispatcher calls.

    unit = "process"

    def wake(self) -> None: ...

    def poll(self, pause: float) -> tuple[list[Ended[Ending]], list[Death]]:
        self.pause = pause
        answers, self.answers = self.answers, []
        deaths, self.deaths = self.deaths, []
        return answers, deaths

    def deliver(self, outcomes: Outcomes, over: list[Lease]) -> None:
        self.outcomes.extend(outcomes)
        self.dropped += over

    # The methods that a test calls.

    def leases(self, count: int, limit: float | None = None) -> list[Lease]:
        ends = AT + timedelta(seconds=30)
        return [
            Lease(
                LeasedRequest(
                    *(n, "default", "add", 0, AT, AT, AT, ends, 1, 1, 5, 0, None, None), "{}"
                ),
                0,
                limit,
                self.clock.time,
            )
            for n, _ in zip(self.ids, range(count), strict=False)
        ]

    def take(self, count: int, limit: float | None = None) -> list[Lease]:
        leases = self.leases(count, limit)
        self.dispatcher.take(leases)
        self.step()
        return leases

    def step(self, draining: bool = False) -> None:
        self.dispatcher.step(lambda: None, draining=draining)

    def answer(self, slot: Slot, ending: Ending = NO_RESULT, seconds: float = TINY) -> None:
        lease = slot.held.popleft()
        slot.since = self.clock.time
        assert lease
        self.answers.append(Ended(lease, ending, seconds))

    def learn(self, seconds: float, count: int = 200) -> None:
        """Run `count` requests that take `seconds` each."""
        for _ in range(count):
            self.take(1)
            self.answer(next(slot for slot in self.runners if slot.held), seconds=seconds)
            self.step()
        self.step()
        self.outcomes = Outcomes()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(dispatcher_module, "now", clock)
    monkeypatch.setattr(dispatcher_module, "GATHER", 0)
    return clock


def ids(leases: Sequence[Lease | None]) -> list[int]:
    return [one.request.request_id for one in leases if one]


def test_before_run_times_are_known_only_free_slots_are_filled(clock: Clock) -> None:
    world = World(clock, slots=4)
    world.step()
    assert (world.dispatcher.capacity, world.dispatcher.idle) == (4, 4)
    world.take(3)
    assert [slot.load for slot in world.runners] == [1, 1, 1, 0]
    assert (world.dispatcher.capacity, world.dispatcher.idle, world.dispatcher.held) == (4, 1, 3)


@pytest.mark.parametrize(
    ("seconds", "ahead"), [(TINY, 100), (0.002, 99), (0.02, 9), (0.099, 1), (0.101, 0), (10, 0)]
)
def test_a_slot_holds_a_fifth_of_a_second_of_work(clock: Clock, seconds: float, ahead: int) -> None:
    world = World(clock, slots=2)
    world.learn(seconds)
    assert world.dispatcher.ahead == ahead
    assert world.dispatcher.capacity == 2 * (1 + ahead)


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.08, 0.099, 0.12, 0.18, 0.25])
def test_nothing_is_taken_back_while_run_times_stay_the_same(clock: Clock, seconds: float) -> None:
    world = World(clock, slots=1)
    world.learn(seconds)
    for _ in range(20):
        if room := world.dispatcher.capacity - world.dispatcher.held:
            world.take(room)
        until = clock.time + 1.5 * seconds
        while clock.time < until:
            clock.time += 0.005
            world.step()
        world.answer(world.runners[0], seconds=seconds)
        world.step()  # reads the answer
        world.step()  # delivers the outcome
    assert not world.outcomes.abandoned
    assert len(world.outcomes.done) == 20


def test_prefetched_requests_are_abandoned_when_requests_take_longer(clock: Clock) -> None:
    """None of them blocks its slot, but together they would take minutes to run."""
    world = World(clock, slots=2)
    world.learn(TINY)
    world.take(202)
    slow = 0.15
    for _ in range(6):
        clock.time += slow
        for slot in world.runners:
            world.answer(slot, seconds=slow)
        world.step()
        world.step()
        clock.time += 0.01
        world.step()
    assert world.dispatcher.held < 50
    assert len(world.outcomes.abandoned) > 150
    assert all(slot.load for slot in world.runners)


def test_prefetch_is_a_bound(clock: Clock) -> None:
    world = World(clock, slots=2, prefetch=7)
    world.learn(TINY)
    assert world.dispatcher.capacity == 16
    world.learn(10, count=20)
    assert world.dispatcher.capacity == 2


def test_a_slot_gets_no_more_than_it_may_still_run(clock: Clock) -> None:
    world = World(clock, slots=2)
    world.learn(TINY)
    world.runners[0].may_run = 3
    world.take(10)
    assert [slot.load for slot in world.runners] == [3, 7]


def test_prefetch_grows_with_the_number_of_known_run_times(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.learn(TINY, count=3)
    assert world.dispatcher.ahead == 3


def test_a_batch_is_distributed_in_order_and_idle_slots_come_first(clock: Clock) -> None:
    world = World(clock, slots=3)
    world.learn(TINY)
    world.runners[1].give(world.leases(2))
    one, *rest = ids(world.take(7))
    assert [ids(slot.held)[-3:] for slot in (world.runners[0], world.runners[2])] == [
        [one, one + 3, one + 6],
        [one + 1, one + 4],
    ]
    assert ids(world.runners[1].held)[2:] == [one + 2, one + 5]
    assert len(rest) == 6


def test_a_request_whose_lease_is_over_is_abandoned_and_not_started(clock: Clock) -> None:
    """This happens after an hour of SIGSTOP."""
    world = World(clock, slots=1)
    held = world.take(3)
    clock.time += 3600
    world.answer(world.runners[0])
    world.step()
    world.step()
    assert ids(world.outcomes.abandoned) == ids(held[1:])
    assert world.runners[0].load == 0
    assert world.dispatcher.held == 0


def test_a_request_with_a_lost_lease_is_not_started_and_has_no_outcome(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.step()
    running, waiting = world.take(2)
    running.lost = waiting.lost = True
    world.dispatcher.lost(waiting)
    world.answer(world.runners[0])
    world.step()
    world.step()
    assert len(world.outcomes) == 0
    assert world.dispatcher.held == 0
    assert world.runners[0].load == 0


def test_a_request_with_a_lost_lease_is_taken_back_from_its_slot(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.learn(TINY)
    first, second, third = world.take(3)
    second.lost = True
    world.dispatcher.lost(second)
    world.step()
    clock.time += 0.02
    world.step()
    world.step()
    assert ids(world.runners[0].held) == ids([first, third])


def test_short_requests_behind_a_long_one_are_given_to_other_slots(clock: Clock) -> None:
    world = World(clock, slots=2)
    world.learn(TINY)
    held = world.take(8)
    blocked, other = world.runners
    while other.held:
        world.answer(other)
    world.step()
    assert blocked.load == 4
    clock.time += 0.201
    world.step()
    assert world.pause == pytest.approx(0.01)
    assert world.dispatcher.capacity == 2 + 100  # the blocked slot prefetches nothing
    clock.time += 0.01
    world.step()
    assert ids(blocked.held) == ids(held[:1])
    assert ids(other.held) == ids(held[2::2])


def test_requests_that_no_slot_can_run_are_abandoned(clock: Clock) -> None:
    world = World(clock, slots=2)
    world.learn(TINY)
    held = world.take(6)
    clock.time += 0.21
    world.step()
    clock.time += 0.01
    world.step()
    world.step()
    assert [slot.load for slot in world.runners] == [1, 1]
    assert sorted(ids(world.outcomes.abandoned)) == ids(held[2:])
    assert world.dispatcher.held == 2


def test_a_task_is_killed_at_its_time_limit_and_not_before(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.take(1, limit=3.0)
    (slot,) = world.runners
    clock.time += 2.99
    world.step()
    assert slot.kills == 0
    assert world.pause == pytest.approx(0.01)
    clock.time += 0.02
    world.step()
    assert slot.kills == 1
    assert slot.end_reason == "was given up because the task ran past its time limit of 0:00:03"


def test_a_slot_that_is_being_killed_has_no_room(clock: Clock) -> None:
    """It has run its request for long, so it also counts as blocked."""
    world = World(clock, slots=1)
    world.learn(TINY)
    world.take(1, limit=3.0)
    clock.time += 3.1
    world.dispatcher.take(world.leases(2))
    world.step()
    world.step()
    assert (world.dispatcher.capacity, world.dispatcher.idle) == (0, 0)


def test_of_the_requests_of_a_dead_child_only_the_running_one_fails(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.learn(TINY)
    running, *others = world.take(4)
    world.runners[0].held.clear()
    world.deaths = [Death("exited with code 3", (running, 0.5), others)]
    world.step()
    world.step()
    (failed,) = world.outcomes.not_done
    assert failed == (
        running,
        Failure("the process running this request exited with code 3"),
        0.5,
    )
    assert ids(world.runners[0].held) == ids(others)


def test_draining_lets_running_tasks_finish_and_abandons_the_rest(clock: Clock) -> None:
    world = World(clock, slots=2)
    world.learn(TINY)
    held = world.take(6)
    late = world.leases(2)
    world.dispatcher.take(late)
    world.step(draining=True)
    clock.time += 0.01
    world.step(draining=True)
    assert sorted(ids(world.outcomes.abandoned)) == ids(held[2:] + late)
    assert world.dispatcher.held == 2
    for slot in world.runners:
        world.answer(slot)
    world.step(draining=True)
    world.step(draining=True)
    assert world.dispatcher.held == 0
    assert world.pause == DRAINED_PAUSE  # it ends at once


def test_a_death_just_before_giving_up_is_delivered(clock: Clock) -> None:
    world = World(clock, slots=1)
    (held,) = world.take(1)
    slot = world.runners[0]
    slot.held.clear()
    world.deaths.append(Death("exited with code 3", (held, 0.5), []))
    world.dispatcher.give_up()
    assert [one.lease for one in world.outcomes.not_done] == [held]
    assert world.dispatcher.held == 0


def test_giving_up_kills_running_tasks_and_abandons_all_requests(clock: Clock) -> None:
    world = World(clock, slots=2)
    world.learn(TINY)
    held = world.take(5)
    world.dispatcher.take(late := world.leases(1))
    idle = Slot(clock)
    world.runners.append(idle)
    world.dispatcher.give_up()
    assert [slot.kills for slot in world.runners] == [1, 1, 0]
    assert sorted(ids(world.outcomes.abandoned)) == ids(held + late)
    assert world.dispatcher.held == 0


def test_started_is_emitted_once_for_each_request(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.learn(TINY)
    world.emitted.clear()
    held = world.take(4)
    for _ in held:
        world.answer(world.runners[0])
        if len(world.answers) == 2:
            world.step()
    world.step()
    started = [event.request for event in world.emitted if isinstance(event, Started)]
    assert started == [one.request for one in held]


def test_a_task_whose_lease_is_not_renewed_is_killed_in_time_and_its_request_abandoned(
    clock: Clock,
) -> None:
    world = World(clock, slots=2)
    (lease, renewed) = world.take(2)
    clock.time += 28.9
    world.step()
    slot, other = world.runners
    assert slot.kills == 0
    assert world.pause == pytest.approx(0.1)
    renewed.ends += 30
    clock.time += 0.2
    world.step()
    assert (slot.kills, other.kills) == (1, 0)
    world.step()
    assert slot.kills == 1
    assert slot.end_reason is not None
    world.deaths.append(Death(slot.end_reason, (lease, 29.1), []))
    world.step()
    world.step()
    assert ids(world.outcomes.abandoned) == ids([lease])
    assert world.outcomes.not_done == []


def test_a_task_whose_lease_is_lost_is_asked_to_stop_and_not_killed(clock: Clock) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    lease.lost = True
    clock.time += 40
    world.step()
    assert world.runners[0].kills == 0


def test_draining_asks_running_tasks_to_stop(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.take(1)
    world.step()
    assert world.runners[0].stopped == []
    world.step(draining=True)
    assert world.runners[0].stopped == [1]


def test_a_cancelled_task_is_asked_to_stop_and_ended_after_the_grace_time(clock: Clock) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    (slot,) = world.runners
    world.dispatcher.cancel(lease, kills=False)
    world.step()
    assert (set(slot.stopped), slot.kills) == ({1}, 0)
    clock.time += 9.9
    world.dispatcher.cancel(lease, kills=False)  # at the next renewal
    world.step()
    assert slot.kills == 0
    assert world.pause == pytest.approx(0.1)
    clock.time += 0.11
    world.step()
    assert slot.kills == 1
    assert slot.end_reason == "was given up because its request was cancelled"


@pytest.mark.parametrize("way", ["killed", "a coroutine"])
def test_a_cancelled_task_has_no_grace_time_if_it_is(way: str, clock: Clock) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    (slot,) = world.runners
    slot.is_coroutine = way == "a coroutine"
    world.dispatcher.cancel(lease, kills=way == "killed")
    world.step()
    assert slot.kills == 1


@pytest.mark.parametrize("is_coroutine", [True, False])
def test_a_task_that_is_cancelled_just_before_it_begins_is_asked_to_stop(
    clock: Clock, is_coroutine: bool
) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    (slot,) = world.runners
    slot.is_coroutine = is_coroutine
    since, slot.since = slot.since, None
    lease.runner = None  # the slot has the request, and has not begun
    world.dispatcher.cancel(lease, kills=False)
    world.step()
    assert slot.kills == 0
    assert world.pause <= 0.02
    slot.since, lease.runner = since, slot
    assert slot.stopped == []
    world.step()
    assert (set(slot.stopped), slot.kills) == ({1}, int(is_coroutine))


def test_a_kill_shortens_the_grace_time_of_a_cancel(clock: Clock) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    world.dispatcher.cancel(lease, kills=False)
    world.step()
    world.dispatcher.cancel(lease, kills=True)
    world.step()
    assert world.runners[0].kills == 1


def test_a_task_that_stops_in_time_is_not_ended(clock: Clock) -> None:
    world = World(clock, slots=1)
    (lease,) = world.take(1)
    world.dispatcher.cancel(lease, kills=False)
    world.step()
    world.answer(world.runners[0], Failure("stopped"))
    world.take(1)
    clock.time += 11
    world.step()
    assert world.runners[0].kills == 0
    assert len(world.outcomes.not_done) == 1


def test_a_cancelled_request_that_has_not_begun_is_abandoned(clock: Clock) -> None:
    world = World(clock, slots=1)
    world.learn(TINY)
    first, second, third = world.take(3)
    world.dispatcher.cancel(second, kills=False)
    world.step()
    clock.time += 0.02
    world.step()
    world.step()
    assert ids(world.runners[0].held) == ids([first, third])
    assert world.outcomes.abandoned == [second]
    assert world.runners[0].stopped == []
