"""Child processes and their pool, without a database."""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlease.clock import now
from rowlease.errors import ConfigError
from rowlease.events import ChildDied, ChildStarted, Event, Events
from rowlease.model import LeasedRequest
from rowlease.tasks.loading import set_up
from rowlease.tasks.task import Registry, task
from rowlease.worker.attempt import Ending, NotRun, Returned
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.slots import shared_memory
from rowlease.worker.slots.child_pool import ChildPool
from rowlease.worker.slots.slot import Death
from tests.waiting import until

PATIENCE = 60.0  # seconds; only a failing test waits that long


@task
def act(do: str, **given: Any) -> object:
    match do:
        case "wait":
            return Path(given["gate"]).read_text()
        case "size":
            return len(given["text"])
        case "large":
            return "x" * 1_000_000
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "descriptors":
            return [fd for fd in map(int, os.listdir("/proc/self/fd")) if inherited(fd)]
        case "orphan":
            if os.fork() == 0:
                threading.Event().wait()
            os._exit(1)
        case "drop the buffer":
            shared_memory.HAS_BUFFER = False
        case "be silent":
            shared_memory.SharedMemoryView.must_wake = lambda self: False  # type: ignore[method-assign]
        case "exit":
            os._exit(0)
        case "print":
            sys.stdout.write("last words\n")
        case "hang":
            threading.Event().wait()
    return do


def inherited(fd: int) -> bool | None:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return None  # the descriptor of the listing itself


def lease(do: str, **given: Any) -> Lease:
    at = datetime.now(UTC)
    request = LeasedRequest(
        *(1, "default", "act", 0, at, at, at, at + timedelta(hours=1), 1, 1, 5, 0, None, None),
        payload=json.dumps({"do": do, **given}),
    )
    return Lease(request, 0, None, now())


@pytest.fixture
def emitted() -> list[Event]:
    return []


@pytest.fixture
def slots(emitted: list[Event]) -> Iterator[ChildPool]:
    events = Events()
    events.subscribe(emitted.append)
    with closing(ChildPool({**set_up(Registry([act])), "dsn": ""}, 1, events)) as slots:
        slots.start(cancelled=lambda: False)
        yield slots


def answers(slots: ChildPool, count: int) -> list[Ended[Ending]]:
    """The next `count` answers; no child may die."""
    found: list[Ended[Ending]] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < until
        more, deaths = slots.poll(1.0)
        assert not deaths
        found += more
    return found


def death(slots: ChildPool) -> Death:
    until = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < until
        _, deaths = slots.poll(1.0)
        if deaths:
            return deaths[0]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def begun(lease: Lease) -> None:
    until(lease.has_begun, PATIENCE)


def result_of(answer: Ended[Ending]) -> str:
    assert isinstance(answer.ending, Returned)
    assert answer.ending.result is not None
    return answer.ending.result


def test_large_payloads_and_results_pass_without_blocking(slots: ChildPool) -> None:
    (slot,) = slots.runners
    given = [lease("size", text="x" * 1_000_000) for _ in range(8)] + [lease("large")] * 8
    slot.give(given)
    assert (slot.has_unsent, slot.load) == (True, 16)  # a pipe holds far less
    found = answers(slots, 16)
    assert [one.ending for one in found[:8]] == [Returned("1000000")] * 8
    assert {len(result_of(one)) for one in found[8:]} == {1_000_002}
    assert (slot.has_unsent, slot.load) == (False, 0)


def test_the_pool_closes_when_the_last_lines_of_its_children_are_logged(
    slots: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = threading.Event()
    logged: list[str] = []

    class Late(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            joined.wait(PATIENCE)
            logged.append(record.getMessage())

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        joined.set()
        real(thread, PATIENCE)

    real = threading.Thread.join
    logger = logging.getLogger("stdout")
    logger.addHandler(late := Late())
    slots.runners[0].give([lease("print")])
    answers(slots, 1)
    monkeypatch.setattr(threading.Thread, "join", join)
    slots.close()
    monkeypatch.undo()
    joined.set()
    logger.removeHandler(late)
    assert logged == ["last words"]


def test_a_stopped_child_does_not_delay_the_worker(slots: ChildPool) -> None:
    (slot,) = slots.runners
    stop = lease("stop")
    slot.give([stop, *(lease("size", text="x" * 1_000_000) for _ in range(3))])
    begun(stop)
    assert slots.poll(0) == ([], [])
    slot.kill()
    left = death(slots)
    assert left.how == "was killed by signal 9 (SIGKILL)"
    assert len(left.others) == 3


def test_requests_behind_a_long_one_can_be_taken_back(slots: ChildPool, gate: Path) -> None:
    (slot,) = slots.runners
    long, *others = given = [lease("wait", gate=str(gate)), lease("a"), lease("b")]
    slot.give(given)
    begun(long)
    assert [one.has_begun() for one in given] == [True, False, False]
    slot.start_take_back(now())
    assert slot.take_back_at is not None
    assert slot.finish_take_back() == others
    assert slot.load == 1
    slot.give([late := lease("c")])
    gate.write_text("through")
    found = answers(slots, 2)
    assert [one.lease for one in found] == [long, late]
    assert all(isinstance(one.ending, Returned) for one in found)


def test_a_request_that_the_child_skipped_is_answered_as_not_run(
    slots: ChildPool, gate: Path
) -> None:
    """The child goes on in between, and answers NOT_RUN for the others."""
    (slot,) = slots.runners
    long, *_ = given = [lease("wait", gate=str(gate)), lease("a"), lease("b")]
    slot.give(given)
    begun(long)
    slot.start_take_back(now())
    gate.write_text("through")
    found = answers(slots, 3)
    assert [one.lease for one in found] == given
    assert [isinstance(one.ending, NotRun) for one in found] == [False, True, True]
    assert slot.finish_take_back() == []
    assert slot.load == 0


def test_a_death_returns_the_running_request_and_those_not_begun(
    slots: ChildPool, emitted: list[Event], gate: Path
) -> None:
    (slot,) = slots.runners
    quick, long, *others = given = [lease("a"), lease("wait", gate=str(gate)), lease("b")]
    slot.give(given)
    begun(long)
    os.kill(slot.pid, signal.SIGKILL)
    found, deaths = slots.poll(PATIENCE)
    while not deaths:
        more, deaths = slots.poll(PATIENCE)
        found += more
    assert [one.lease for one in found] == [quick]
    assert deaths[0].running
    assert deaths[0].running[0] is long
    assert deaths[0].others == others
    assert emitted[1] == ChildDied(0, slot.pid, "was killed by signal 9 (SIGKILL)", long.request)
    (successor,) = slots.runners
    successor.give(others)
    answers(slots, 1)


def test_a_death_also_ends_the_processes_that_the_task_has_started(slots: ChildPool) -> None:
    """Otherwise an orphan process would run on, and keep the pipes open."""
    (slot,) = slots.runners
    slot.give([lease("orphan")])
    assert death(slots).how == "exited with code 1"
    until(lambda: not group_exists(slot.pid), PATIENCE)


def group_exists(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_a_task_starts_inherits_no_pipe(slots: ChildPool) -> None:
    (slot,) = slots.runners
    slot.give([lease("descriptors")])
    (answer,) = answers(slots, 1)
    assert json.loads(result_of(answer)) == [0, 1, 2]


def test_children_hold_their_own_pipes_only(slots: ChildPool, emitted: list[Event]) -> None:
    """Requests, outcomes, output and the kill pipe: one end of each is the child's."""
    with closing(ChildPool({**set_up(Registry([act])), "dsn": ""}, 1, Events())) as others:
        others.start(cancelled=lambda: False)
        first, second = (pipes(one.runners[0].pid) for one in (slots, others))
        assert len(first) == len(second) == 4
        assert not first & second


def pipes(pid: int) -> set[str]:
    """The pipes a process holds, without its stdin, stdout and stderr."""
    folder = Path("/proc", str(pid), "fd")
    found = {os.readlink(fd) for fd in folder.iterdir() if int(fd.name) > 2}
    return {name for name in found if name.startswith("pipe:")}


def test_the_last_answers_of_a_dead_child_are_read(slots: ChildPool) -> None:
    """The answers and the death may arrive in any order."""
    (slot,) = slots.runners
    assert slot.pidfd is not None
    slot.give([first := lease("a"), last := lease("exit")])
    assert select.select([slot.pidfd], [], [], PATIENCE)[0]
    slots._remove(slot)
    found, deaths = slots.poll(0)
    assert [one.lease for one in found] == [first]
    assert deaths[0].running
    assert deaths[0].running[0] is last


def test_the_answers_of_a_killed_child_outlive_it(slots: ChildPool, gate: Path) -> None:
    """The worker has not looked since the child began, and the child has sent no wake-up."""
    (slot,) = slots.runners
    given = [*(lease("a") for _ in range(500)), long := lease("wait", gate=str(gate))]
    slot.give(given)
    begun(long)
    slot.kill()
    found, deaths = slots.poll(PATIENCE)
    while not deaths:
        more, deaths = slots.poll(PATIENCE)
        found += more
    assert [one.lease for one in found] == given[:-1]
    assert deaths[0].running
    assert deaths[0].running[0] is long


def test_without_a_buffer_all_answers_pass_through_the_pipe(slots: ChildPool) -> None:
    (slot,) = slots.runners
    slot.give([lease("drop the buffer"), *(lease("a") for _ in range(3)), lease("large")])
    assert len(answers(slots, 5)) == 5


def test_an_answer_without_a_wake_up_is_found(slots: ChildPool) -> None:
    """The child may not have seen yet that the worker waits."""
    (slot,) = slots.runners
    slot.give([lease("be silent")])
    until(lambda: slot.has_answers, PATIENCE)
    began = time.monotonic()
    assert len(slots.poll(PATIENCE)[0]) == 1
    assert time.monotonic() < began + PATIENCE


def test_nothing_leaks_over_many_deaths(slots: ChildPool, emitted: list[Event]) -> None:
    gc.collect()  # closes now what other tests have left open
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        slots.runners[0].give([lease("hang")])
        slots.runners[0].kill()
        death(slots)
        while not slots.runners[0].ready:
            slots.poll(1.0)
    assert len(os.listdir("/proc/self/fd")) == before
    assert slots.num_deaths == 5
    pids = [event.pid for event in emitted if isinstance(event, ChildStarted)]
    assert len(set(pids)) == 6


def test_a_child_ends_when_its_worker_closes_the_pipe(slots: ChildPool) -> None:
    (slot,) = slots.runners
    assert slot.pidfd is not None
    slot.close_requests()
    assert select.select([slot.pidfd], [], [], PATIENCE)[0]


def test_a_task_that_others_cannot_import_is_refused() -> None:
    @task
    def inner() -> None: ...

    with pytest.raises(ConfigError, match=r"task inner \(.*<locals>.inner\) cannot be imported"):
        set_up(Registry([inner]))
