"""Middleware runs around each enqueue call and each run, in every executor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlease import AsyncClient, Client, Worker, middleware
from rowlease.errors import InvalidRequest
from rowlease.events import Events
from rowlease.middleware import Middleware
from rowlease.tasks.task import Task
from rowlease.testing import drain, drain_async
from tests.acceptance import middleware_tasks as tasks
from tests.acceptance.middleware_tasks import native, plain, tenant

Sql = Callable[..., list[tuple[Any, ...]]]

# The module adds its middleware to the whole process. Only the tests of this module want it.
for _each in tasks.MIDDLEWARE:
    middleware.added.remove(_each)

#: Each executor, with the tasks that it can run.
EXECUTORS: dict[str, list[Task[..., Any]]] = {
    "process": [plain, native],
    "thread": [plain, native],
    "coroutine": [native],
}
FAILURES = [f"{when} {name}" for when in ("before", "after", "leave") for name in "ab"]


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "added", list(tasks.MIDDLEWARE))


@pytest.fixture
def sentry_events(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The events that Sentry has received, from all processes."""
    pytest.importorskip("sentry_sdk")
    file = tmp_path / "sentry.jsonl"
    file.touch()
    monkeypatch.setenv(tasks.SENTRY_FILE, str(file))
    tasks.start_sentry()
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    tasks.SDK.get_global_scope().set_client(None)


@contextmanager
def acting_for(name: str) -> Iterator[None]:
    token = tenant.set(name)
    try:
        yield
    finally:
        tenant.reset(token)


def work(client: Client, executor: str) -> Any:
    return Worker(
        client.store,
        EXECUTORS[executor],
        executor=executor,
        concurrency=2,
        burst=True,
        events=Events(),
    ).run()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_middleware_sets_is_set_for_the_task(executor: str, dsn: str) -> None:
    with Client(dsn) as client:
        handles = []
        for name in ("acme", "globex"):
            with acting_for(name):
                handles += [client.enqueue(each) for each in EXECUTORS[executor]]
        assert work(client, executor).finished == len(handles)
        found = [handle.result() for handle in handles]
    assert [one["tenant"] for one in found] == sorted(["acme", "globex"] * len(EXECUTORS[executor]))
    assert all(one["steps"] == ["a", "b"] for one in found)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_error_of_middleware_is_the_error_of_its_request_alone(
    executor: str, dsn: str, sql: Sql
) -> None:
    task = EXECUTORS[executor][-1].with_options(max_attempts=1)
    with Client(dsn) as client:
        for where in FAILURES:
            client.enqueue(task.with_options(headers={"fail": where}))
        good = client.enqueue(task)
        done = work(client, executor)
        assert (done.finished, done.failed) == (1, len(FAILURES))
        assert good.status() == "Complete"
    errors = sql("select error_line from rowlease.requests where status = 'Failed' order by 1")
    assert sorted(line.partition(": ")[2] for (line,) in errors) == sorted(FAILURES)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_middleware_cannot_make_a_failed_attempt_succeed(executor: str, dsn: str, sql: Sql) -> None:
    task = EXECUTORS[executor][-1].with_options(max_attempts=1, headers={"fail": "suppress b"})
    with Client(dsn) as client:
        client.enqueue(task, "no luck")
        assert work(client, executor).failed == 1
    assert sql("select error_line from rowlease.requests") == [("KeyError: 'no luck'",)]


def test_every_way_to_enqueue_passes_the_middleware_in_its_order(dsn: str, sql: Sql) -> None:
    async def in_a_loop() -> None:
        async with (
            AsyncClient(dsn) as client,
            await psycopg.AsyncConnection.connect(dsn) as connection,
        ):
            await client.enqueue(native)
            await client.enqueue_many([native.request(), native.request()])
            await client.bind(connection).enqueue(native)

    with acting_for("acme"), Client(dsn) as client, psycopg.connect(dsn) as connection:
        client.enqueue(plain)
        client.enqueue_many([plain.request()])
        client.enqueue_untyped("plain", {})
        client.bind(connection).enqueue(plain)
        connection.commit()
        asyncio.run(in_a_loop())
        client.enqueue(plain.with_options(headers={"tenant": "own"}))
    found = sql("select headers ->> 'tenant', headers ->> 'steps' from rowlease.queue order by 1")
    assert found == [("acme", "ab")] * 8 + [("own", "ab")]


def test_an_error_around_an_enqueue_enqueues_nothing(
    dsn: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refuses(Middleware):
        @contextmanager
        def around_enqueue(self, requests: Any) -> Iterator[None]:
            if requests:
                raise PermissionError("no")
            yield

    class TooLarge(Middleware):
        @contextmanager
        def around_enqueue(self, requests: Any) -> Iterator[None]:
            requests[0].headers["large"] = "x" * 9_000
            yield

    with Client(dsn) as client:
        for wrong, error in ((Refuses(), PermissionError), (TooLarge(), InvalidRequest)):
            monkeypatch.setattr(middleware, "added", [wrong])
            with pytest.raises(error):
                client.enqueue(plain)
    assert sql("select 1 from rowlease.queue") == []


def test_a_test_that_drains_runs_the_middleware(dsn: str) -> None:
    with Client(dsn) as client:
        with acting_for("acme"):
            first = client.enqueue(plain)
            drain(client, [plain])
            second = client.enqueue(native)
            asyncio.run(drain_async(client, [native]))
        assert [each.result()["tenant"] for each in (first, second)] == ["acme", "acme"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_sentry_gets_each_error_once_and_the_trace_of_its_producer(
    executor: str, dsn: str, sentry_events: Callable[[], list[dict[str, Any]]]
) -> None:
    producers = {}
    with Client(dsn) as client:
        for task in EXECUTORS[executor]:
            with tasks.SDK.start_transaction(op="http", name=f"web {task.name}") as transaction:
                request = client.enqueue(task.with_options(max_attempts=1), "no luck")
                producers[request.request_id] = transaction.trace_id, task.name
        client.enqueue(EXECUTORS[executor][-1])
        done = work(client, executor)
    assert (done.finished, done.failed) == (1, len(producers))
    events = [event for event in sentry_events() if "exception" in event]
    assert {
        event["extra"]["request_id"]: (
            event["contexts"]["trace"]["trace_id"],
            event["tags"]["rowlease.kind"],
        )
        for event in events
    } == producers
    assert len(events) == len(producers)
    assert all(event["exception"]["values"][-1]["type"] == "KeyError" for event in events)
    runs = [event for event in sentry_events() if event.get("type") == "transaction"]
    assert (
        sum(run["contexts"]["trace"].get("op") == "queue.task" for run in runs) == len(events) + 1
    )
