"""Spans of enqueue calls and runs are in one trace, in every executor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach

from rowlease import AsyncClient, Client, Worker, middleware
from rowlease.errors import InvalidRequest
from rowlease.events import Events
from rowlease.tasks.task import Task
from rowlease.tracing import Tracing
from tests.acceptance import traced_tasks
from tests.acceptance.traced_tasks import memory, native, plain, provider, tracer

Sql = Callable[..., list[tuple[Any, ...]]]
#: The spans of this process and of its children, as the SDK writes them as JSON.
Spans = Callable[[], list[dict[str, Any]]]

# The module adds its middleware to the whole process. Only the tests of this module want it.
middleware.added.remove(traced_tasks.MIDDLEWARE)

EXECUTORS: dict[str, Task[..., Any]] = {"process": plain, "thread": plain, "coroutine": native}


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "added", [traced_tasks.MIDDLEWARE])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spans]:
    file = tmp_path / "spans"
    file.touch()
    monkeypatch.setenv(traced_tasks.SPAN_FILE, str(file))
    memory.clear()

    def found() -> list[dict[str, Any]]:
        own = [json.loads(span.to_json()) for span in memory.get_finished_spans()]
        return own + [json.loads(line) for line in file.read_text().splitlines()]

    yield found
    memory.clear()


def named(spans: Spans, name: str) -> list[dict[str, Any]]:
    return [span for span in spans() if span["name"] == name]


def work(client: Client, executor: str, queue: str = "default") -> Any:
    tasks = [EXECUTORS[executor]]
    options = {"executor": executor, "concurrency": 1, "burst": True, "events": Events()}
    return Worker(client.store, tasks, queues=[queue], **options).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_is_in_the_trace_of_its_enqueue_call(executor: str, dsn: str, spans: Spans) -> None:
    task = EXECUTORS[executor]
    with Client(dsn) as client:
        client.queues.create("mail")  # the task's own queue is `default`
        with tracer.start_as_current_span("web"):
            handle = client.enqueue(task.with_options(queue="mail"))
        work(client, executor, "mail")
    (web,), (send,) = named(spans, "web"), named(spans, "send mail")
    (run,), (inside,) = named(spans, "process mail"), named(spans, "inside")
    traces = {span["context"]["trace_id"] for span in (web, send, run, inside)}
    assert len(traces) == 1
    assert send["parent_id"] == web["context"]["span_id"]
    assert run["parent_id"] == send["context"]["span_id"]
    assert inside["parent_id"] == run["context"]["span_id"]
    assert [link["context"]["span_id"] for link in run["links"]] == [send["context"]["span_id"]]
    assert (send["kind"], run["kind"]) == ("SpanKind.PRODUCER", "SpanKind.CONSUMER")
    assert send["attributes"] == {
        "messaging.system": "rowlease",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "mail",
        "rowlease.kind": task.name,
    }
    assert run["attributes"] == {
        "messaging.system": "rowlease",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(handle.request_id),
        "rowlease.kind": task.name,
        "rowlease.attempt": 1,
    }
    assert run["status"]["status_code"] == "UNSET"


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_failure_is_an_error_and_a_snooze_is_none(executor: str, dsn: str, spans: Spans) -> None:
    task = EXECUTORS[executor].with_options(max_attempts=1)
    with Client(dsn) as client:
        client.enqueue(task, "fail")
        client.enqueue(task, "snooze")
        assert work(client, executor).failed == 1
    failed, snoozed = named(spans, "process default")
    assert failed["status"] == {
        "status_code": "ERROR",
        "description": "KeyError: 'no luck'",
    }
    assert failed["attributes"]["error.type"] == "KeyError"
    assert [event["name"] for event in failed["events"]] == ["exception"]
    assert snoozed["status"]["status_code"] == "UNSET"
    assert snoozed["attributes"]["rowlease.outcome"] == "snoozed"


def test_a_batch_is_one_span_and_no_payload_is_in_it(dsn: str, spans: Spans) -> None:
    async def in_a_loop() -> None:
        async with AsyncClient(dsn) as client:
            await client.enqueue_many([native.request("secret"), native.request("secret")])

    with Client(dsn) as client:
        client.enqueue_many([plain.request("secret"), native.request("secret")])
    asyncio.run(in_a_loop())
    first, second = named(spans, "send default")
    assert first["attributes"]["messaging.batch.message_count"] == 2
    assert "rowlease.kind" not in first["attributes"]
    assert second["attributes"]["rowlease.kind"] == "native"
    assert "secret" not in json.dumps(spans())


def test_a_request_carries_the_trace_and_no_baggage(dsn: str, sql: Sql) -> None:
    token = attach(set_baggage("user", "secret"))
    try:
        with Client(dsn) as client:
            client.enqueue(plain.with_options(headers={"tenant": "acme"}))
            given = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
            client.enqueue(plain.with_options(headers=given))
    finally:
        detach(token)
    first, second = (
        one for (one,) in sql("select headers from rowlease.queue order by request_id")
    )
    assert set(first) == {"tenant", "traceparent"}
    assert second == given


def test_an_enqueue_that_fails_is_an_error(dsn: str, spans: Spans) -> None:
    with Client(dsn) as client, pytest.raises(InvalidRequest):
        client.enqueue(plain.with_options(queue="nowhere"))
    (send,) = named(spans, "send nowhere")
    assert send["attributes"]["error.type"] == "InvalidRequest"


def test_a_load_carries_the_trace_of_its_driver(dsn: str, spans: Spans) -> None:
    """rowlease.spark.enqueue takes these headers for all rows; this test enqueues one of them."""
    with Client(dsn) as client:
        with traced_tasks.MIDDLEWARE.around_load("default", "plain") as headers:
            client.enqueue(plain.with_options(headers=headers))
        work(client, "thread")
    load, _ = sorted(named(spans, "send default"), key=lambda span: span["start_time"])
    (run,) = named(spans, "process default")
    assert run["parent_id"] == load["context"]["span_id"]


def test_a_run_may_begin_a_trace_of_its_own(
    dsn: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "added", [Tracing(provider, links_only=True)])
    with Client(dsn) as client:
        client.enqueue(plain)
        work(client, "thread")
    (send,), (run,) = named(spans, "send default"), named(spans, "process default")
    assert run["parent_id"] is None
    assert run["context"]["trace_id"] != send["context"]["trace_id"]
    assert run["links"][0]["context"]["span_id"] == send["context"]["span_id"]


def test_a_request_without_a_trace_begins_one(dsn: str, sql: Sql, spans: Spans) -> None:
    sql("select rowlease.enqueue('default', 'plain')")
    with Client(dsn) as client:
        work(client, "thread")
    (run,) = named(spans, "process default")
    assert (run["parent_id"], run["links"]) == (None, [])
