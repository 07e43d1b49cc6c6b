"""The slots of the event loop, without a database."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from threading import Thread
from types import FrameType
from typing import Any

import pytest

from rowlease.clock import now
from rowlease.context import current
from rowlease.events import Event, EventLoopBlocked, EventLoopFreed, Events
from rowlease.lifespans import Shared
from rowlease.model import Failure, LeasedRequest
from rowlease.tasks.task import Registry, task
from rowlease.worker.attempt import NotRun, Returned
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.slots import block_watch
from rowlease.worker.slots.event_loop import EventLoop
from rowlease.worker.slots.slot import Death
from tests.waiting import until

PATIENCE = 60.0  # seconds; only a failing test waits that long
NUM_SLOTS = 3


class Gate:
    """Tasks wait here until a test opens it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.waiting = 0
        self.threads: list[int] = []
        self.of_other_tests: list[Thread] = []
        self.counted = 0
        self.counted_before_cancel = 0
        self.act: Callable[[], object] = lambda: None


gate = Gate()


@task
async def number(n: int) -> int:
    return n


@task
async def wait() -> str:
    gate.waiting += 1
    await asyncio.to_thread(gate.opened.wait, PATIENCE)
    return "through"


@task
async def count() -> None:
    gate.counted += 1
    if gate.counted == 1:
        gate.act()


@task
async def note_cancel() -> None:
    gate.waiting += 1
    try:
        await asyncio.Event().wait()
    finally:
        gate.counted_before_cancel = gate.counted


@task
def block() -> bool:
    """Waits in a thread; returns whether it was asked to stop."""
    gate.waiting += 1
    gate.threads.append(threading.get_ident())
    assert gate.opened.wait(PATIENCE)
    return current().should_stop


@task
async def hold() -> None:
    await keep_the_loop()


async def keep_the_loop() -> None:
    gate.waiting += 1
    assert gate.opened.wait(PATIENCE)


@task
async def hold_within() -> None:
    await asyncio.create_task(keep_the_loop())


@task
async def report() -> str:
    current().progress(0.5, "ä" * 400)
    gate.waiting += 1
    await asyncio.to_thread(gate.opened.wait, PATIENCE)
    return "reported"


REGISTRY = Registry((number, wait, count, note_cancel, block, hold, hold_within, report))


def lease(name: str, ends_in: float = 3600.0, **given: Any) -> Lease:
    at = datetime.now(UTC)
    request = LeasedRequest(
        *(1, "default", name, 0, at, at, at, at + timedelta(seconds=ends_in)),
        *(1, 1, 5, 0, None, None),
        payload=json.dumps(given),
    )
    return Lease(request, list(REGISTRY).index(name), None, now())


@pytest.fixture
def emitted() -> list[Event]:
    return []


@pytest.fixture
def slots(emitted: list[Event]) -> Iterator[EventLoop]:
    global gate
    gate = Gate()
    gate.of_other_tests = task_threads()
    events = Events()
    events.subscribe(emitted.append)
    with (
        closing(EventLoop(REGISTRY, NUM_SLOTS, "thread", events, Shared(""))) as slots,
        ExitStack() as stack,
    ):
        slots.start(cancelled=lambda: False)
        stack.callback(gate.opened.set)
        yield slots
    # A thread that begins late would count at the gate of the next test.
    for thread in own_threads():
        thread.join(PATIENCE)


def task_threads() -> list[Thread]:
    return [each for each in threading.enumerate() if each.name == "rowlease-task"]


def own_threads() -> list[Thread]:
    """Without those that a test of another module has given up, which may last for long."""
    return [each for each in task_threads() if each not in gate.of_other_tests]


def ended(slots: EventLoop, count: int) -> list[Ended[Any]]:
    found: list[Ended[Any]] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < until
        more, deaths = slots.poll(1.0)
        assert not deaths
        found += more
    return found


def first_death(slots: EventLoop) -> Death:
    ends = time.monotonic() + PATIENCE
    while not (deaths := slots.poll(0.1)[1]):
        assert time.monotonic() < ends
    return deaths[0]


def test_requests_are_run_in_order_and_answered_once(slots: EventLoop) -> None:
    given = [lease("number", n=n) for n in range(1000)]
    slots.give(given[:700])
    slots.give(given[700:])
    found = ended(slots, 1000)
    assert [one.lease for one in found] == given
    assert [one.ending for one in found] == [Returned(str(n)) for n in range(1000)]
    assert slots.poll(0.0) == ([], [])
    assert (slots.load, slots.num_busy, slots.num_idle) == (0, 0, NUM_SLOTS)


def test_no_more_requests_run_at_once_than_there_are_slots(slots: EventLoop) -> None:
    given = [lease("wait") for _ in range(NUM_SLOTS + 2)]
    slots.give(given)
    until(lambda: gate.waiting == NUM_SLOTS)
    assert [one.has_begun() for one in given] == [True] * NUM_SLOTS + [False] * 2
    assert (slots.load, slots.num_busy, slots.num_idle) == (NUM_SLOTS + 2, NUM_SLOTS, 0)
    assert [one for one, _ in slots.running()] == given[:NUM_SLOTS]
    slots.start_take_back(now())
    assert slots.finish_take_back() == given[NUM_SLOTS:]
    assert slots.load == NUM_SLOTS
    slots.give(given[NUM_SLOTS:])
    gate.opened.set()
    assert {one.lease for one in ended(slots, NUM_SLOTS + 2)} == set(given)


def test_a_short_task_waits_for_no_other(slots: EventLoop) -> None:
    slots.give([lease("wait"), lease("block"), short := lease("number", n=1)])
    assert [one.lease for one in ended(slots, 1)] == [short]


@pytest.mark.parametrize("lost", [False, True])
def test_a_request_whose_lease_is_over_is_not_run(slots: EventLoop, lost: bool) -> None:
    late = lease("number", ends_in=3600.0 if lost else -1.0, n=1)
    late.lost = lost
    slots.give([late])
    assert [one.ending for one in ended(slots, 1)] == [NotRun()]


@pytest.mark.parametrize("name", ["wait", "block"])
def test_a_request_that_is_ended_dies_and_its_slot_goes_on(slots: EventLoop, name: str) -> None:
    slots.give([over := lease(name)])
    until(lambda: gate.waiting)
    slots.end(over, "ran too long")
    slots.end(over, "a second reason")
    death = first_death(slots)
    assert (death.how, death.others) == ("ran too long", [])
    assert death.running
    assert death.running[0] is over
    slots.give([lease("number", n=1)] * NUM_SLOTS)
    assert len(ended(slots, NUM_SLOTS)) == NUM_SLOTS


def test_a_thread_that_was_given_up_sees_that_it_should_stop(slots: EventLoop) -> None:
    slots.give([over := lease("block")])
    until(lambda: gate.waiting)
    slots.end(over, "ran too long")
    first_death(slots)
    assert slots.is_asked_to_stop(over.number)


def test_giving_up_returns_all_requests_and_their_answers_are_dropped(slots: EventLoop) -> None:
    given = [lease("wait") for _ in range(NUM_SLOTS + 2)]
    slots.give(given)
    until(lambda: gate.waiting == NUM_SLOTS)
    assert slots.give_up() == (given[:NUM_SLOTS], given[NUM_SLOTS:])
    until(lambda: not slots.running())
    assert slots.poll(0.0) == ([], [])


def test_threads_are_used_again(slots: EventLoop) -> None:
    gate.opened.set()
    for _ in range(5):
        slots.give([lease("block")])
        ended(slots, 1)
    assert len(set(gate.threads)) == 1


def test_a_thread_that_outlives_the_event_loop_ends_with_its_function(slots: EventLoop) -> None:
    slots.give([lease("block")])
    until(lambda: gate.waiting)
    slots.close()
    gate.opened.set()
    until(lambda: not own_threads())


def test_the_answer_of_a_thread_that_was_given_up_is_dropped(
    slots: EventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    slots.give([one := lease("block")])
    until(lambda: gate.waiting)
    slots.end(one, "was given up")
    assert first_death(slots).running
    gate.opened.set()
    until(lambda: slots._threads._free)
    slots.give([lease("block")])  # in the same thread, so after that answer
    ended(slots, 1)
    assert len(set(gate.threads)) == 1
    assert [record.getMessage() for record in caplog.records] == []


def test_stopping_a_request_is_seen_by_it_alone(slots: EventLoop) -> None:
    slots.give([one := lease("block"), other := lease("block")])
    until(lambda: gate.waiting == 2)
    one.stop()
    gate.opened.set()
    results = {each.lease: each.ending for each in ended(slots, 2)}
    assert results == {one: Returned("true"), other: Returned("false")}


def test_progress_is_there_while_a_request_runs(slots: EventLoop) -> None:
    slots.give([one := lease("report")])
    until(lambda: gate.waiting)
    assert one.progress() == (0.5, "ä" * 200)
    gate.opened.set()
    ended(slots, 1)
    assert one.progress() is None


def test_a_renewal_prolongs_the_time_that_a_task_sees(slots: EventLoop) -> None:
    slots.give([one := lease("wait")])
    until(lambda: gate.waiting)
    one.prolong(ends := now() + 7200.0)
    assert slots.lease_ends(one.number) == ends


def test_a_loop_that_never_waits_lets_timers_run(slots: EventLoop) -> None:
    """Requests without end must not keep the loop from cancelling one."""
    slots.give([over := lease("note_cancel")])
    until(lambda: gate.waiting)
    gate.act = lambda: slots.end(over, "ran too long")  # in the loop's thread: no race for the GIL
    slots.give([lease("count") for _ in range(20_000)])
    first_death(slots)
    until(lambda: gate.counted == 20_000)
    assert 0 < gate.counted_before_cancel < 20_000


def test_a_wrong_payload_fails_its_request(slots: EventLoop) -> None:
    slots.give([lease("number", n="no")])
    (one,) = ended(slots, 1)
    assert isinstance(one.ending, Failure)
    assert one.ending.dead


def test_a_signal_handler_may_call_wake_wherever_it_interrupts_poll() -> None:
    slots = EventLoop(Registry(()), 1, "coroutine", Events(), Shared(""))

    def interrupt(frame: FrameType, event: str, argument: object) -> Any:
        slots.wake()  # as a signal handler would: between two lines of the interrupted thread
        return interrupt

    def poll() -> None:
        sys.settrace(interrupt)
        slots.poll(0.0)
        slots.poll(0.0)

    thread = Thread(target=poll, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    slots.close()
    assert not thread.is_alive()


#: Python 3.11 does not tell which request the tasks of a task belong to.
WITHIN = pytest.param(
    "hold_within", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="needs Python 3.12")
)


@pytest.mark.parametrize("name", ["hold", WITHIN])
def test_a_task_that_blocks_the_event_loop_is_named(
    name: str, slots: EventLoop, emitted: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_watch, "BLOCKED_SECONDS", 0.0)
    monkeypatch.setattr(block_watch, "BLOCK_CHECK_SECONDS", 0.0)
    slots.give([blocking := lease(name)])
    until(lambda: gate.waiting, PATIENCE)
    until(lambda: slots.poll(0) and emitted, PATIENCE)
    (blocked,) = emitted
    assert isinstance(blocked, EventLoopBlocked)
    assert blocked.request is blocking.request
    assert blocked.place.startswith(f"{__file__}:")
    assert blocked.place.endswith(" in keep_the_loop")
    gate.opened.set()
    ended(slots, 1)
    freed = until(lambda: slots.poll(0) and emitted[1:], PATIENCE)[0]
    assert isinstance(freed, EventLoopFreed)
    assert freed.request is blocking.request
    assert freed.seconds >= blocked.seconds


def test_a_loop_whose_tasks_wait_is_not_blocked(
    slots: EventLoop, emitted: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_watch, "BLOCK_CHECK_SECONDS", 0.0)
    slots.give([lease("wait")])
    until(lambda: gate.waiting, PATIENCE)
    for _ in range(100):
        slots.poll(0.001)
    assert emitted == []
    gate.opened.set()
    ended(slots, 1)
