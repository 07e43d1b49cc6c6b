"""The queries of docs/alerts.md find something in the state for which their alert fires."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from rowlease.events import Events
from rowlease.metrics.examination import Examination
from rowlease.metrics.exporter import DatabaseMetrics
from rowlease.metrics.prometheus_format import worker_exposition
from rowlease.metrics.worker_metrics import count_events
from rowlease.model import Failure
from rowlease.store import Store
from rowlease.testing import Clock, frozen
from tests.acceptance.workers import drain, put
from tests.unit.test_metrics import Samples, samples

Sql = Callable[..., list[tuple[Any, ...]]]


class State(NamedTuple):
    """A state for which an alert fires.

    Attributes:
        make: makes the state; returns the metrics of a worker, if the alert reads those.
        fires: whether these metrics are those for which the alert fires.
        finds: a text in the answer of the runbook's first query.
    """

    make: Callable[[Store, Clock], str | None]
    fires: Callable[[Samples], bool]
    finds: str


def heartbeat(store: Store, *queues: str) -> None:
    store.worker_heartbeat(
        "host:1:ab", host="host", pid=1, version="1", queues=queues, slots=8, busy=0
    )


def other_queue(store: Store, clock: Clock) -> None:
    store.configure_queue("mail")
    heartbeat(store, "mail")
    put(store, "ok")


def late(store: Store, clock: Clock) -> None:
    put(store, "ok")
    clock.advance(minutes=11)
    heartbeat(store, "default")


def failed(store: Store, clock: Clock) -> None:
    put(store, "ok", "ok")
    first, second = store.dequeue("host:1:ab", ["default"], 2).requests
    store.fail([first, second], [Failure("Timeout after 30 s", error_type="E", dead=True)] * 2)


def retried(store: Store, clock: Clock) -> None:
    put(store, "ok")
    store.fail(
        store.dequeue("host:1:ab", ["default"], 1).requests,
        [Failure("no answer", error_type="Timeout")],
    )


def overdue(store: Store, clock: Clock) -> None:
    put(store, "ok")
    store.dequeue("host:1:ab", ["default"], 1)
    clock.advance(minutes=4)


def silent_load(store: Store, clock: Clock) -> None:
    store.begin_load("flights", "default", "a run")
    clock.advance(minutes=16)


def deaths(store: Store, clock: Clock) -> str:
    put(store, *["kill"] * 4, max_attempts=1)
    events = Events()
    tally = count_events(events)
    drain(store, events=events, executor="process")
    return worker_exposition(tally, {}, "")[1].decode()


def nothing(store: Store, clock: Clock) -> None:
    pass


QUEUE = ("default",)
DEAD = ("0", "default", "Failed")
STATES = {
    "RowleaseNoWorker": State(
        other_queue,
        lambda found: found["rowlease_demand", QUEUE] > 0 == found["rowlease_workers", QUEUE],
        "mail",
    ),
    "RowleaseQueueLate": State(
        late, lambda found: found["rowlease_oldest_request_seconds", QUEUE] > 600, "next claim"
    ),
    "RowleaseDeadLetters": State(
        failed, lambda found: found["rowlease_requests", DEAD] > 0, "Timeout after # s"
    ),
    "RowleaseFailures": State(
        retried, lambda found: found["rowlease_failed_attempts_total", QUEUE] > 0, "Timeout"
    ),
    "RowleaseOverdueLeases": State(
        overdue, lambda found: found["rowlease_overdue_leases", QUEUE] > 0, "host:1:ab"
    ),
    "RowleaseLoadSilent": State(
        silent_load, lambda found: found["rowlease_load_silent_seconds", QUEUE] > 900, "flights"
    ),
    "RowleaseConnections": State(
        nothing, lambda found: found["rowlease_connections", ()] > 0, "active"
    ),
    "RowleaseChildDeaths": State(
        deaths,
        lambda found: found["rowlease_worker_child_deaths_total", ()] > 3,
        "was killed by signal 9",
    ),
}


@pytest.fixture
def queries(repository: Path) -> dict[str, list[str]]:
    """The queries of each alert's runbook."""
    page = (repository / "docs" / "alerts.md").read_text()
    sections = re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", page, re.M | re.S)
    found = {name: re.findall(r"^```sql\n(.+?)^```", text, re.M | re.S) for name, text in sections}
    return {name: blocks for name, blocks in found.items() if blocks}


def test_every_query_of_a_runbook_has_a_state(queries: dict[str, list[str]]) -> None:
    assert set(queries) == {*STATES, "RowleaseDeadRows"}  # it has a statement, and no query


@pytest.mark.parametrize("alert", STATES)
def test_a_query_finds_something_when_its_alert_fires(
    alert: str, store: Store, sql: Sql, queries: dict[str, list[str]]
) -> None:
    state = STATES[alert]
    with frozen(store) as clock:
        exposed = state.make(store, clock) or metrics_of(store)
        assert state.fires(samples(exposed))
        (block,) = queries[alert]
        first, *more = [one for one in re.split(r";.*\n", block) if one.strip()]
        assert state.finds in repr(sql(first))
        for statement in more:
            assert sql(statement)


def metrics_of(store: Store, examination: Examination | None = None) -> str:
    registry = CollectorRegistry()
    registry.register(cast("Any", DatabaseMetrics(store, examination=examination)))
    return bytes(generate_latest(registry)).decode()


def test_a_full_queue_and_every_finding_are_metrics(store: Store, dsn: str) -> None:
    from rowlease.doctor import examine

    store.configure_queue("default", capacity=2)
    put(store, "ok", "ok")
    store.pause("default")
    examination = Examination(lambda: examine(dsn))
    examination.examine()
    found = samples(metrics_of(store, examination))
    assert found["rowlease_queue_free_places", QUEUE] == 0
    findings = {labels for name, labels in found if name == "rowlease_findings"}
    assert {("full", "default"), ("paused", "default")} <= findings
    assert findings == {(one.finding, one.subject) for one in examine(dsn)}
