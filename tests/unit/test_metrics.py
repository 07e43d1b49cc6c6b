"""What a worker counts and an exporter reads, in the format of Prometheus."""

from __future__ import annotations

import http.client
import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rowlease.errors import StoreError, StoreUnavailable
from rowlease.events import (
    Abandoned,
    CallStuck,
    ChildDied,
    Claimed,
    Disowned,
    Event,
    Events,
    Failed,
    Finished,
    LeaseLostEvent,
    OutcomeRefused,
    RenewalsLost,
    Renewed,
    ScheduleFired,
    ScheduleNotFired,
    Snoozed,
    StoreLost,
    WorkerDied,
)
from rowlease.http_server import HttpServer
from rowlease.metrics import exporter
from rowlease.metrics.examination import Examination
from rowlease.metrics.exporter import DatabaseMetrics
from rowlease.metrics.prometheus_format import worker_exposition
from rowlease.metrics.tally import BUCKETS, Tally
from rowlease.metrics.worker_metrics import METRICS, count_events
from rowlease.model import Depth, Finding, LeasedRequest, Metric, Outcome, QueueState, WorkerState
from rowlease.store import Store
from rowlease.worker.host.health import HealthReport
from rowlease.worker.host.probes import probe_answers
from rowlease.worker.host.supervised import SupervisorEnd, WorkerEnd
from rowlease.worker.host.supervisor import Supervisor

AT = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = LeasedRequest(
    *(7, "mail", "send", 0, AT, AT, AT + timedelta(seconds=2), AT + timedelta(seconds=30)),
    *(1, 2, 5, 0, None, None, "{}"),
)
#: Every event that is counted.
EVENTS: list[Event] = [
    Claimed((REQUEST, REQUEST._replace(kind="print"))),
    Finished(REQUEST, 0.004),
    Finished(REQUEST, 7.0),
    Failed(REQUEST, 0.5, "x", dead=False),
    Failed(REQUEST, 0.5, "x", dead=True),
    Abandoned(REQUEST),
    Snoozed(REQUEST, 0.5, timedelta(minutes=1), "x"),
    LeaseLostEvent(REQUEST, Outcome.LEASE_LOST),
    OutcomeRefused(REQUEST, "x"),
    Renewed(3),
    Disowned(2),
    RenewalsLost("renew", AT, "x"),
    CallStuck("exchange", "receiver", 10.0),
    StoreLost("x"),
    ChildDied(0, 1, "x", None),
    WorkerDied(1, 1, "x", None),
    ScheduleFired("nightly", AT, 1),
    ScheduleNotFired("nightly", "x"),
]
Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(text: str) -> Samples:
    """The samples of an exposition, by name and label values in the order of the label names."""
    return {
        (
            one.name,
            tuple(one.labels[name] for name in sorted(one.labels) if name != "database"),
        ): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def counted() -> Tally:
    events = Events()
    tally = count_events(events, {"send", "print"})
    for event in EVENTS:
        events.emit(event)
    return tally


def exposed(tally: Tally) -> Samples:
    return samples(worker_exposition(tally, {"slots": 4}, "")[1].decode())


def check(found: Samples, times: int = 1) -> None:
    prefix = "rowlease_worker_"
    for name, labels, value in [
        ("claims_total", (), 1),
        ("claimed_requests_total", ("mail",), 2),
        ("outcomes_total", ("send", "complete", "mail"), 2),
        ("outcomes_total", ("send", "failed", "mail"), 1),
        ("outcomes_total", ("send", "dead_letter", "mail"), 1),
        ("outcomes_total", ("send", "abandoned", "mail"), 1),
        ("outcomes_total", ("send", "snoozed", "mail"), 1),
        ("outcomes_total", ("send", "lease_lost", "mail"), 1),
        ("outcomes_total", ("send", "refused", "mail"), 1),
        ("wait_seconds_sum", ("send", "mail"), 2),
        ("wait_seconds_count", ("print", "mail"), 1),
        ("wait_seconds_bucket", ("send", "1.0", "mail"), 0),
        ("wait_seconds_bucket", ("send", "2.5", "mail"), 1),
        ("run_seconds_bucket", ("send", "0.0025", "mail"), 0),
        ("run_seconds_bucket", ("send", "0.005", "mail"), 1),
        ("run_seconds_bucket", ("send", "0.5", "mail"), 4),
        ("run_seconds_bucket", ("send", "+Inf", "mail"), 5),
        ("run_seconds_sum", ("send", "mail"), 8.504),
        ("renewed_leases_total", (), 3),
        ("renewals_lost_total", (), 1),
        ("disowned_leases_total", (), 2),
        ("stuck_calls_total", ("exchange",), 1),
        ("store_losses_total", (), 1),
        ("child_deaths_total", (), 1),
        ("restarts_total", (), 1),
        ("fired_schedules_total", ("nightly",), 1),
        ("unfired_schedules_total", ("nightly",), 1),
    ]:
        assert found[prefix + name, labels] == pytest.approx(value * times), name


# -- workers -----------------------------------------------------------------------------------


def test_the_events_of_a_worker_are_counted() -> None:
    found = exposed(counted())
    check(found)
    assert found["rowlease_worker_slots", ()] == 4


def test_every_metric_has_a_unit_and_every_counter_is_moved_by_an_event() -> None:
    assert [name for name in METRICS if not name.endswith(("_total", "_seconds"))] == []
    values, durations = counted().as_json()
    assert {name for name, *_ in [*values, *durations]} == set(METRICS)


def test_a_counter_without_labels_begins_at_zero() -> None:
    """Otherwise Prometheus would not see its first increase."""
    assert exposed(Tally())["rowlease_worker_renewals_lost_total", ()] == 0


def test_a_duration_is_counted_in_the_bucket_of_its_limit() -> None:
    tally = Tally()
    for seconds in (0.0, BUCKETS[0], BUCKETS[-1], BUCKETS[-1] + 1):
        tally.observe("rowlease_worker_run_seconds", "q", "k", seconds=seconds)
    found = exposed(tally)
    bucket = "rowlease_worker_run_seconds_bucket"
    assert found[bucket, ("k", "0.001", "q")] == 2
    assert found[bucket, ("k", "1800.0", "q")] == 3
    assert found[bucket, ("k", "+Inf", "q")] == 4


def test_a_kind_that_the_worker_does_not_know_gets_no_series() -> None:
    events = Events()
    tally = count_events(events, {"send"})
    events.emit(Claimed((REQUEST._replace(kind="made up"),)))
    found = exposed(tally)
    assert found["rowlease_worker_claimed_requests_total", ("mail",)] == 1
    assert not [labels for _, labels in found if "made up" in labels]


def test_tallies_are_added_up() -> None:
    total = Tally()
    for _ in range(3):
        total.add(json.loads(json.dumps(counted().as_json())))
    check(exposed(total), times=3)


def test_a_worker_sends_its_tally_to_its_supervisor_with_each_message() -> None:
    ends = SupervisorEnd()
    worker = WorkerEnd(ends.worker_socket.detach(), gone=lambda: None, tally=counted())
    worker.show(HealthReport(True, True, (), started=True))
    assert ends.read()
    total = Tally()
    total.add(ends.tally)
    check(exposed(total))
    assert ends.report == HealthReport(True, True, (), started=True)
    worker.close()
    ends.close()


def test_a_supervisor_keeps_the_counts_of_workers_that_have_ended() -> None:
    """Otherwise a sum would fall when a worker is replaced, and look like a restart of all."""
    tally = json.dumps({"tally": counted().as_json()})
    code = f"import os, sys; os.write(int(sys.argv[1]), {tally.encode()!r} + b'\\n')"
    run = Supervisor(
        [sys.executable, "-S", "-c", code, "{}"],
        2,
        Events(),
        grace=timedelta(seconds=5),
        burst=True,
    )
    run.run()
    check(exposed(run.tally()), times=2)


def test_a_scrape_counts_a_worker_while_it_is_being_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally = json.dumps({"tally": counted().as_json()})
    code = f"import os, sys; os.write(int(sys.argv[1]), {tally.encode()!r} + b'\\n')"
    run = Supervisor(
        [sys.executable, "-S", "-c", code, "{}"],
        1,
        Events(),
        grace=timedelta(seconds=5),
        burst=True,
    )
    scraped = list[Samples]()
    close = SupervisorEnd.close

    def scrape_and_close(end: SupervisorEnd) -> None:
        scraped.append(exposed(run.tally()))
        close(end)

    monkeypatch.setattr(SupervisorEnd, "close", scrape_and_close)
    run.run()
    check(scraped[0])


# -- the port ----------------------------------------------------------------------------------


def asked(server: HttpServer, path: str, accept: str = "") -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()


def test_metrics_are_on_the_port_of_the_probes() -> None:
    health = HealthReport(True, False, ("its slots are not ready yet",))
    tally = counted()

    def scrape(accept: str) -> tuple[str, bytes]:
        return worker_exposition(tally, {"slots": 4}, accept)

    with HttpServer("127.0.0.1", 0, probe_answers(lambda: health, scrape)) as server:
        code, kind, body = asked(server, "/metrics")
        assert (code, kind.partition(";")[0]) == (200, "text/plain")
        check(samples(body))
        _, kind, body = asked(server, "/metrics", "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert body.endswith("# EOF\n")
        assert asked(server, "/ready")[0] == 503
    with HttpServer("127.0.0.1", 0, probe_answers(lambda: health)) as server:
        code, _, body = asked(server, "/metrics")
        assert (code, "pip install 'rowlease[metrics]'" in body) == (404, True)


# -- the exporter ------------------------------------------------------------------------------


class Database:
    """A store that answers, or fails as `error` says, and counts the calls."""

    where = "postgresql://reader:***@db.example:5432/jobs"

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def within(self, timeout: timedelta) -> Database:
        return self

    def _answered(self, answer: list[Any]) -> list[Any]:
        self.calls += 1
        if self.error:
            raise self.error
        return answer

    def list_queues(self) -> list[Any]:
        return self._answered([
            QueueState("mail", True, 40, 3, timedelta(seconds=9)),
            QueueState('q"\n', False, 0, 0, None),
        ])  # fmt: skip

    def depth(self) -> list[Any]:
        return self._answered([Depth("mail", 9, 1, 2, 3, 4), Depth("mail", 0, 5, 6, 7, 8)])

    def list_workers(self) -> list[Any]:
        def worker(name: str, queues: tuple[str, ...], silent: int) -> WorkerState:
            return WorkerState(name, "h", 1, "1", queues, 4, 3, 0, AT, timedelta(seconds=silent))

        return self._answered(
            [worker("a", ("mail", "x"), 29), worker("b", ("mail",), 1), worker("c", ("mail",), 31)]
        )

    def metrics(self) -> list[Any]:
        return self._answered(
            [
                Metric("demand", "mail", 13),
                Metric("schedule_late_seconds", "nightly", 61.5),
                Metric("queue_capacity", "mail", 20),
                Metric("queue_capacity", 'q"\n', 3),
            ]
        )

    def metrics_server(self) -> list[Any]:
        return self._answered([Metric("connections", "", 12), Metric("dead_rows", "queue", 5)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    at = [100.0]
    monkeypatch.setattr(exporter, "now", lambda: at[0])
    return at  # type: ignore[return-value]


def scraped(metrics: DatabaseMetrics) -> Samples:
    registry = CollectorRegistry()
    registry.register(metrics)
    return samples(generate_latest(registry).decode())


def test_a_database_is_described(clock: list[float]) -> None:
    found = scraped(DatabaseMetrics(cast("Store", Database())))
    for name, labels, value in [
        ("up", (), 1),
        ("requests", ("9", "mail", "Scheduled"), 1),
        ("requests", ("9", "mail", "Pending"), 2),
        ("requests", ("0", "mail", "Processing"), 7),
        ("requests", ("0", "mail", "Failed"), 8),
        ("requests", ("0", 'q"\\n', "Pending"), 0),
        ("queue_paused", ("mail",), 1),
        ("oldest_request_seconds", ("mail",), 9),
        ("oldest_request_seconds", ('q"\\n',), 0),
        ("finished_requests_total", ("mail",), 40),
        ("failed_attempts_total", ("mail",), 3),
        ("workers", ("mail",), 2),
        ("workers", ('q"\\n',), 0),
        ("silent_workers", (), 1),
        ("slots", (), 8),
        ("busy_slots", (), 6),
        ("demand", ("mail",), 13),
        ("queue_capacity", ("mail",), 20),
        ("queue_free_places", ("mail",), 6),  # 3 + 11 wait
        ("queue_free_places", ('q"\\n',), 3),
        ("schedule_late_seconds", ("nightly",), 61.5),
        ("connections", (), 12),
        ("dead_rows", ("queue",), 5),
    ]:
        assert found[f"rowlease_{name}", labels] == value, name


def test_every_metric_names_its_database(clock: list[float]) -> None:
    registry = CollectorRegistry()
    registry.register(DatabaseMetrics(cast("Store", Database())))
    worker = worker_exposition(counted(), {"slots": 4}, "", "db.example:5432/jobs")[1].decode()
    for text in (generate_latest(registry).decode(), worker):
        families = list(text_string_to_metric_families(text))
        labels = [one.labels for family in families for one in family.samples]
        assert len(labels) > 10
        assert {each.get("database") for each in labels} == {"db.example:5432/jobs"}


def test_each_finding_is_a_sample(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    answers: list[list[Finding] | StoreError] = [
        [Finding("paused", "mail", "m", "a"), Finding("paused", "mail", "n", "a")],
        StoreUnavailable("no\nanswer"),
        StoreUnavailable("no\nanswer"),
        [],
    ]

    def examine() -> list[Finding]:
        answer = answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    examination = Examination(examine)
    metrics = DatabaseMetrics(cast("Store", Database()), timedelta(0), examination)

    def findings() -> list[tuple[str, ...]]:
        return [labels for name, labels in scraped(metrics) if name == "rowlease_findings"]

    assert findings() == []
    seen = []
    while answers:
        examination.examine()
        seen.append(findings())
    unexamined = ("unexamined", "the database")
    assert seen == [[("paused", "mail")], [unexamined], [unexamined], []]
    assert caplog.text.count("the database was not examined") == 1


def test_metrics_of_a_later_release_are_left_out(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "metrics_server", lambda _: [Metric("new", "x", 1)])
    assert scraped(DatabaseMetrics(cast("Store", Database())))["rowlease_up", ()] == 1


def test_scrapes_within_the_cache_time_read_the_database_once(clock: list[float]) -> None:
    database = Database()
    metrics = DatabaseMetrics(cast("Store", database), cache=timedelta(seconds=5))
    calls = [0, 0, 0, 0]
    for number, at in enumerate((100.0, 104.9, 105.0, 110.0)):
        clock[0] = at
        metrics.collect()
        calls[number] = database.calls
    assert calls == [5, 5, 10, 15]


def test_a_database_that_does_not_answer_is_down_and_is_named_once(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    database = Database()
    metrics = DatabaseMetrics(cast("Store", database))
    database.error = StoreUnavailable("the database at x cannot be reached")
    for _ in range(3):
        clock[0] += 10
        found = scraped(metrics)
        assert found["rowlease_up", ()] == 0
        assert not [name for name, _ in found if name == "rowlease_requests"]
    assert caplog.text.count("cannot be reached") == 1
    database.error = None
    clock[0] += 10
    assert scraped(metrics)["rowlease_up", ()] == 1


def test_every_metric_is_in_the_page_on_metrics(repository: Path, clock: list[float]) -> None:
    page = (repository / "docs" / "metrics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `rowlease_")]
    documented = {name for row in rows for name in re.findall(r"`(rowlease_\w+)`", row)}
    scalars = {"up", "scrape_seconds", "exporter_info", "worker_live", "worker_ready",
               "worker_draining", "worker_slots", "worker_busy_slots"}  # fmt: skip
    names = {f"rowlease_{name}" for name in scalars}
    assert documented == {*exporter.GAUGES, *exporter.COUNTERS, *METRICS, *names}
    for name, (_, labels) in {**METRICS, **exporter.GAUGES}.items():
        (row,) = (one for one in rows if f"`{name}`" in one)
        assert row.split("|")[2].strip() == ", ".join(labels), name


def test_the_names_of_the_exporter_are_those_that_its_gauges_list(clock: list[float]) -> None:
    names = {name for name, _ in scraped(DatabaseMetrics(cast("Store", Database())))}
    assert set(exporter.COUNTERS) <= names
    assert all(name.endswith("_total") for name in exporter.COUNTERS)
