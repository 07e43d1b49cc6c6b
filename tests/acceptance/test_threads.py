"""A worker whose tasks are plain functions in threads of its own process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from rowlease.context import current
from rowlease.errors import ConfigError, Snooze
from rowlease.events import Failed, Finished, ProgressKept, Started
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.tasks.task import task
from rowlease.worker import Worker
from tests.acceptance.workers import SHORT_LEASE, statuses
from tests.acceptance.workers import working as working_with

Sql = Callable[..., list[tuple[Any, ...]]]

PATIENCE = 60.0  # seconds; only a failing test waits that long
together = threading.Barrier(32)
let_go = threading.Event()
left = threading.Event()


@task
def plain(do: str = "ok") -> object:
    match do:
        case "fail":
            raise ValueError("no luck today")
        case "leave":
            raise SystemExit("left")
        case "snooze":
            raise Snooze(timedelta(hours=1), "not ready")
        case "stop iteration":
            raise StopIteration("no more")
        case "meet":
            together.wait(PATIENCE)
        case "report":
            current().progress(0.25, "a quarter")
            assert let_go.wait(PATIENCE)
        case "stay":
            assert let_go.wait(PATIENCE)
    return {"attempt": current().attempt, "thread": threading.current_thread().name}


@task
async def native() -> str:
    return threading.current_thread().name


@task(time_limit=timedelta(seconds=0.05))
def stuck() -> None:
    """Runs until it is asked to stop, and reports what it saw then."""
    attempt = current()
    assert let_go.wait(PATIENCE)
    if attempt.should_stop:
        left.set()


@task(soft_time_limit=timedelta(seconds=0.02))
def patient() -> str:
    attempt = current()
    while not attempt.should_stop:
        threading.Event().wait(0.001)
    return "stopped in time"


TASKS: list[Any] = [plain, native, stuck, patient]


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    let_go.clear()
    left.clear()
    yield
    let_go.set()


def put(store: Store, *actions: str, kind: str = "plain", **options: Any) -> None:
    requests = [
        NewRequest(kind=kind, payload=json.dumps({"do": action} if action else {}), **options)
        for action in actions
    ]
    store.enqueue_many("default", requests)


def drain(store: Store, **settings: Any) -> Any:
    return Worker(store, TASKS, executor="thread", burst=True, **settings).run()


def test_every_outcome_of_a_function_in_a_thread_is_delivered(store: Store, sql: Sql) -> None:
    put(store, "ok", "fail", "leave", "stop iteration", "snooze", max_attempts=1)
    summary = drain(store, concurrency=2)
    assert (summary.finished, summary.failed, summary.snoozed, summary.slots) == (1, 3, 1, 2)
    ((result,),) = sql("select result from rowlease.queue_history")
    assert result == {"attempt": 1, "thread": "rowlease-task"}
    errors = sql(
        "select last_error from rowlease.queue where status = 'Failed' order by request_id"
    )
    assert [text.partition("\n")[0] for (text,) in errors] == [
        "ValueError: no luck today",
        "SystemExit: left",
        "StopIteration: no more",
    ]


def test_as_many_threads_as_slots_run_at_once(store: Store) -> None:
    put(store, *["meet"] * 32)
    assert drain(store).finished == 32


def test_a_coroutine_among_functions_runs_in_the_event_loop(store: Store, sql: Sql) -> None:
    put(store, "", kind="native")
    put(store, "ok")
    assert drain(store).finished == 2
    results = sql("select result from rowlease.queue_history where kind = 'native'")
    assert results == [("rowlease-coroutines",)]


def test_a_thread_past_its_time_limit_is_left_running_and_its_slot_continues(
    store: Store, sql: Sql
) -> None:
    put(store, "", "", kind="stuck", max_attempts=1)
    put(store, "ok")
    summary = drain(store, concurrency=1)
    assert (summary.finished, summary.failed) == (1, 2)
    errors = sql("select distinct last_error from rowlease.queue")
    assert errors == [
        (
            "the thread running this request was given up because the task ran past its time limit "
            "of 0:00:00.050000",
        )
    ]
    let_go.set()
    assert left.wait(PATIENCE), "what was left behind is not told to stop"


def test_a_soft_time_limit_asks_a_thread_to_stop(store: Store, sql: Sql) -> None:
    put(store, "", kind="patient")
    assert drain(store).finished == 1
    assert sql("select result from rowlease.queue_history") == [("stopped in time",)]


def test_a_thread_that_never_ends_does_not_delay_the_end_of_the_worker(
    store: Store, sql: Sql
) -> None:
    with working_with(store, tasks=TASKS, concurrency=None, executor="thread") as (worker, emitted):
        put(store, "stay", "ok")
        assert emitted.first(Finished)
        assert emitted.first(Started)
        worker.stop()
        worker.stop()
    assert statuses(sql) == {"Complete": 1, "Pending": 1}


def test_a_thread_past_its_time_limit_delivers_no_outcome(store: Store, sql: Sql) -> None:
    with working_with(store, tasks=TASKS, concurrency=1, executor="thread") as (_, emitted):
        put(store, "", kind="stuck")
        assert "past its time limit" in emitted.first(Failed).error
        let_go.set()
        assert left.wait(PATIENCE)
        put(store, "ok")
        assert emitted.first(Finished).request.kind == "plain"
    assert statuses(sql) == {"Complete": 1, "Scheduled": 1}


def test_the_progress_of_a_thread_can_be_read(store: Store, sql: Sql) -> None:
    settings = {"concurrency": 2, "executor": "thread", "lease": SHORT_LEASE}
    with working_with(store, tasks=TASKS, **settings) as (_, emitted):
        put(store, "report")
        assert emitted.first(ProgressKept).count == 1
        assert sql("select fraction, note from rowlease.progress") == [(0.25, "a quarter")]
        let_go.set()
        assert emitted.first(Finished)


def test_a_plain_function_cannot_run_as_a_coroutine(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"plain is not an `async def`.*'thread' runs both"):
        Worker(store, TASKS, executor="coroutine")


def test_tasks_choose_their_executor(store: Store, sql: Sql) -> None:
    @task(executor="thread")
    def threaded() -> str:
        return threading.current_thread().name

    put(store, "", kind="threaded")
    put(store, "", kind="native")
    summary = Worker(store, [threaded, native], burst=True).run()
    assert (summary.finished, summary.slots) == (2, 32)
    assert sql("select result from rowlease.queue_history where kind = 'threaded'") == [
        ("rowlease-task",)
    ]


def test_two_tasks_that_name_different_executors_are_refused(store: Store) -> None:
    @task(executor="thread")
    def one() -> None: ...

    @task(executor="process")
    def other() -> None: ...

    printed = r"task one names 'thread' and task other names 'process'; give each a queue"
    with pytest.raises(ConfigError, match=printed):
        Worker(store, [one, other])


def test_an_unknown_executor_is_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="must be one of process, thread, coroutine"):
        Worker(store, TASKS, executor="greenlet")
