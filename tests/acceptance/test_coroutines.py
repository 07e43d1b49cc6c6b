"""A worker whose tasks are coroutines: many at once, in one event loop of its own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rowlease.errors import SoftTimeLimitExceeded
from rowlease.events import Finished, Started
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.worker import Worker
from tests.acceptance.coroutine_tasks import TASKS, crowd
from tests.acceptance.workers import statuses
from tests.acceptance.workers import working as working_with

Sql = Callable[..., list[tuple[Any, ...]]]


def put(store: Store, *actions: Any, kind: str = "act", **options: Any) -> list[int]:
    payloads = [{"do": action} if isinstance(action, str) else action for action in actions]
    requests = [NewRequest(kind=kind, payload=json.dumps(p), **options) for p in payloads]
    return [answer.request_id or 0 for answer in store.enqueue_many("default", requests)]


def drain(store: Store, **settings: Any) -> Any:
    return Worker(store, TASKS, burst=True, **settings).run()


def working(store: Store, **settings: Any) -> Any:
    return working_with(store, tasks=TASKS, concurrency=None, **settings)


@pytest.mark.parametrize("executor", [None, "process"])
def test_every_outcome_of_a_coroutine_is_delivered(
    store: Store, sql: Sql, executor: str | None
) -> None:
    put(store, {"do": "ok", "x": 1}, "fail", "retry", "dead", "leave", "cancel", "object", "snooze")
    summary = drain(store, executor=executor, concurrency=2)
    assert (summary.finished, summary.failed, summary.snoozed, summary.slots) == (1, 6, 1, 2)
    ((result,),) = sql("select result from rowlease.queue_history")
    assert result == {"did": "ok", "attempt": 1, "x": 1}
    printed = [
        str(text).partition("\n")[0]
        for (text,) in sql("select last_error from rowlease.queue order by request_id")
    ]
    assert printed == [
        "ValueError: no luck today",
        "come back later",
        "never again",
        "SystemExit: left",
        "asyncio.exceptions.CancelledError",
        "ValueError: the result of task act is not JSON: object cannot be written as JSON; "
        "register the type with rowlease.register_type",
        "None",
    ]
    assert sql("select error from rowlease.attempt where outcome = 'snoozed'") == [("not ready",)]
    assert statuses(sql) == {"Complete": 1, "Failed": 1, "Scheduled": 6}


def test_a_hundred_coroutines_run_at_once(store: Store, sql: Sql) -> None:
    crowd.clear()
    put(store, *[{"count": 100}] * 100, kind="meet")
    assert drain(store).finished == 100
    assert sql("select distinct result::text from rowlease.queue_history") == [("100",)]


def test_more_coroutines_than_slots_run_in_their_order(store: Store, sql: Sql) -> None:
    put(store, *[{"x": number} for number in range(500)])
    summary = drain(store, concurrency=1)
    assert summary.finished == 500
    done = sql(
        "select (result ->> 'x')::int from rowlease.queue_history"
        " order by completion_time, request_id"
    )
    assert done == [(number,) for number in range(500)]


def test_a_coroutine_past_its_time_limit_is_cancelled_and_its_slot_continues(
    store: Store, sql: Sql
) -> None:
    put(store, {}, {}, kind="endless", max_attempts=1)
    put(store, "ok", "ok")
    summary = drain(store, concurrency=1)
    assert (summary.finished, summary.failed, summary.crashed) == (2, 2, 0)
    errors = sql("select distinct last_error from rowlease.queue")
    assert [error for (error,) in errors] == [
        "the coroutine running this request was given up because the task ran past its time limit "
        "of 0:00:00.100000"
    ]


def test_a_coroutine_past_its_soft_time_limit_gets_the_exception(store: Store, sql: Sql) -> None:
    put(store, {}, kind="slow")
    assert drain(store).failed == 1
    ((error,),) = sql("select last_error from rowlease.queue where status = 'Failed'")
    assert error.startswith(f"{SoftTimeLimitExceeded.__module__}.SoftTimeLimitExceeded: the task")


def test_short_requests_do_not_wait_behind_a_long_one(store: Store) -> None:
    with working(store, prefetch=50) as (_, emitted):
        put(store, *["ok"] * 300)
        for _ in range(300):
            emitted.first(Finished)
        put(store, "stay", *["ok"] * 300)
        for _ in range(300):
            emitted.first(Finished)


def test_a_second_stop_abandons_running_requests(store: Store, sql: Sql) -> None:
    put(store, "stay")
    with working(store) as (worker, emitted):
        emitted.first(Started)
        worker.stop()
        worker.stop()
    assert statuses(sql) == {"Pending": 1}
