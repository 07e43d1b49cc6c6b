"""Child processes that die, and the threads and processes that tasks have started in them."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlease.events import ChildDied, Event, Events, Finished
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.tasks.loading import set_up
from rowlease.tasks.task import Registry
from rowlease.worker import Worker
from rowlease.worker.slots.child_process import ChildProcess
from tests.acceptance import child_tasks
from tests.acceptance.child_tasks import TASKS, leak, whoami
from tests.acceptance.test_supervisor import working as supervised
from tests.acceptance.workers import errors, line, worker_process
from tests.acceptance.workers import working as working_with
from tests.waiting import until

Sql = Callable[..., list[tuple[Any, ...]]]
LEASE = timedelta(seconds=30)


def put(store: Store, kind: str, **given: Any) -> int:
    payload = "{" + ", ".join(f'"{key}": "{value}"' for key, value in given.items()) + "}"
    (answer,) = store.enqueue_many(
        "default", [NewRequest(kind=kind, payload=payload, max_attempts=1)]
    )
    return answer.request_id or 0


def test_a_child_ends_without_waiting_for_threads_of_its_tasks(store: Store, sql: Sql) -> None:
    put(store, "leave_a_thread")
    with working_with(store, TASKS) as (_, emitted):
        emitted.first(Finished)
        put(store, "close_all")
        assert emitted.first(Finished).request.kind == "close_all"  # its outcome needs no pipe
        assert emitted.first(ChildDied).how == "exited with code 1"
        put(store, "ping")
        assert emitted.first(Finished).request.kind == "ping"
    assert errors(sql) == {}


def test_a_child_that_closes_its_pipe_and_keeps_running_is_killed(store: Store, sql: Sql) -> None:
    silent = put(store, "close_all_and_stay")
    put(store, "ping")
    how = "was killed because it had closed the pipe to its worker and did not end"
    with working_with(store, TASKS) as (_, emitted):
        assert emitted.first(ChildDied).how == how
        assert emitted.first(Finished).request.kind == "ping"
    assert errors(sql) == {silent: f"the process running this request {how}"}


@pytest.mark.parametrize("kind", ["wait_beside_sleep", "close_all_beside_sleep"])
def test_processes_that_a_task_started_die_with_a_killed_worker(
    kind: str, dsn: str, store: Store, sql: Sql, tmp_path: Path
) -> None:
    reported = tmp_path / "pid"
    put(store, kind, reported=reported)
    with worker_process(dsn, child_tasks.__name__, concurrency=1, lease=LEASE) as process:
        line(process, "started request_id")
        with ExitStack() as stack:
            sleep = process_of(reported, stack)
            process.kill()
            assert select.select([sleep], [], [], LEASE.total_seconds())[0]
    assert sql("select lock_expires_time > clock_timestamp() from rowlease.queue") == [(True,)]


def test_a_child_outlives_the_thread_that_started_it() -> None:
    """The kill pipe kills a child at the end of its worker; PR_SET_PDEATHSIG would kill it here."""
    started: list[ChildProcess] = []
    thread = threading.Thread(target=lambda: started.append(started_child()))
    thread.start()
    thread.join()
    (child,) = started
    child.close_requests()
    assert child.close(timeout=LEASE.total_seconds()) == "exited with code 0"


def started_child() -> ChildProcess:
    child = ChildProcess(0, {**set_up(Registry(TASKS)), "dsn": ""})
    while not child.ready:
        select.select([child.outcomes_fd], [], [])
        child.read_pipe()
    return child


def test_processes_that_a_task_started_die_with_a_worker_that_ends(
    store: Store, tmp_path: Path
) -> None:
    reported = tmp_path / "pid"
    put(store, "start_sleep", reported=reported)
    with ExitStack() as stack:
        with working_with(store, TASKS) as (_, emitted):
            emitted.first(Finished)
            sleep = process_of(reported, stack)
            assert not select.select([sleep], [], [], 0)[0]
        assert select.select([sleep], [], [], LEASE.total_seconds())[0]


def process_of(reported: Path, stack: ExitStack) -> int:
    """A descriptor of the process whose id a task has written to a file; killed at the end."""
    fd = os.pidfd_open(int(until(lambda: reported.exists() and reported.read_text())))

    def end() -> None:
        if not select.select([fd], [], [], 0)[0]:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)

    stack.callback(end)
    return fd


#: The first child process that imports it is killed, as the kernel does when memory is short.
DIES_ONCE = """
import os
import signal
import sys
from rowlease import task

if sys.modules["__main__"].__file__.endswith("child_program.py"):
    try:
        os.close(os.open("mark", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGKILL)

@task
def ping():
    return "pong"
"""


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_child_that_is_killed_before_it_is_ready_is_started_again(
    processes: str, dsn: str, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "dies_once.py").write_text(DIES_ONCE)
    put(store, "ping")
    options = ("--processes", processes, "--burst")
    with supervised(dsn, tmp_path, *options, tasks="dies_once") as command:
        assert command.event("child_died")["how"] == "was killed by signal 9 (SIGKILL)"
        code, summary = command.ended()
    assert (code, summary["finished"], summary["crashed"]) == (0, 1, 1)
    assert summary.get("restarts", 0) == 0


def test_a_child_runs_at_most_so_many_requests(store: Store, sql: Sql) -> None:
    store.enqueue_many("default", [NewRequest(kind="whoami")] * 25)
    seen: list[Event] = []
    events = Events()
    events.subscribe(seen.append)
    worker = Worker(
        store, [whoami], burst=True, concurrency=2, max_tasks_per_child=4, events=events
    )
    assert worker.run().finished == 25
    counts = sql("select count(*) from rowlease.queue_history group by result::text")
    assert max(count for (count,) in counts) <= 4
    assert len(counts) >= 7
    assert not [one for one in seen if isinstance(one, ChildDied)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory of a process")
def test_a_child_is_replaced_after_a_task_that_leaves_too_much_memory(
    store: Store, sql: Sql
) -> None:
    seen: list[Event] = []
    events = Events()
    events.subscribe(seen.append)
    leaks = [NewRequest(kind="leak", payload=f'{{"mib": {mib}}}') for mib in (1, 1, 400, 1, 400)]
    store.enqueue_many("default", leaks)
    settings: dict[str, Any] = {"concurrency": 1, "prefetch": 0, "max_memory_per_child": 300}
    assert Worker(store, [leak], burst=True, events=events, **settings).run().finished == 5
    pids = [pid for (pid,) in sql("select result from rowlease.queue_history order by request_id")]
    assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4]
    assert not [one for one in seen if isinstance(one, ChildDied)]
