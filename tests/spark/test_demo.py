"""The demo compares every row, notices every difference, and continues where it was stopped."""

from __future__ import annotations

import csv
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.demo import check, flights, run_demo
from rowlease.demo import run as demo_run
from rowlease.demo.drain import DrainSample, WorkerProcess, drain
from rowlease.demo.flights import FLIGHT_COLUMNS, by_carrier, flights_job, urgency
from rowlease.demo.job import QUEUE, Job
from rowlease.demo.ledger import close_run, find_run
from rowlease.demo.source import Input, package_file, prepare
from rowlease.demo.tasks import flight
from rowlease.errors import RowleaseError
from rowlease.model import Begun
from rowlease.spark.promotion import promoted
from rowlease.store import Store, open_store
from tests.conftest import in_database, scratch_database

Sql = Callable[..., list[tuple[Any, ...]]]
#: Cancelled, diverted, to an airport without coordinates, in a long day, not in the air at all, and
#: with an odd name.
ODD = """\
UA,EWR,IAH,2013-01-01T10:00:00Z,1,15,515,1400,,,,
UA,LGA,IAH,2013-06-21T23:00:00Z,2,59,1859,1416,1900,1,,
B6,JFK,SJU,2013-07-01T04:00:00Z,3,0,2400,1598,100,60,30,200
HA,JFK,HNL,2013-12-21T14:00:00Z,4,0,900,4983,859,-1,200,640
AA,JFK,JFK,2013-12-21T14:00:00Z,5,0,900,0,900,0,0,0
"A, ""B"" \\",JFK,LAX,2013-12-21T14:00:00Z,6,0,900,2475,900,0,0,0
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Input:
    """The first flights of the data set, and some odd ones."""
    folder = tmp_path_factory.mktemp("source")
    with zipfile.ZipFile(package_file("flights.csv.zip")) as archive:
        lines = archive.read("flights.csv").decode().splitlines()[:151]
    real = csv.DictReader(lines)
    path = folder / "flights-and-odd-ones.csv"
    with path.open("w", newline="") as text:
        rows = csv.DictWriter(text, FLIGHT_COLUMNS, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        rows.writerows(real)
        text.write(ODD)
    return prepare(path, None, folder)


@pytest.fixture(scope="module")
def job(spark: Any, source: Input) -> Job:
    """Its requests, and what Spark expects of each."""
    made = flights_job(spark, source)
    made.rows.persist()
    made.expected.persist()
    return made


@pytest.fixture(scope="module")
def worked(server_dsn: str, template: str, job: Job) -> Iterator[str]:
    """The name of a database in which a worker has run every request, to be copied."""
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        with closing(open_store(dsn)) as store:
            store.configure_queue(QUEUE)
            run = store.begin_load("load", QUEUE, "one")
            assert isinstance(run, Begun)
            promoted(store, job.stage(dsn, "load", run))
            work(store)
        yield name


@pytest.fixture
def dsn(server_dsn: str, template: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The test's own database: a copy of that one for those that look at what is found there."""
    if "found" in request.fixturenames:
        template = request.getfixturevalue("worked")
    with scratch_database(server_dsn, template) as name:
        yield in_database(server_dsn, name)


@pytest.fixture
def found(spark: Any, dsn: str, job: Job) -> Any:
    """The results after a worker has run every request."""
    return check.finished(spark, dsn, job, "load")


def work(store: Store, limit: int = 10_000) -> None:
    """Do what a worker does, for up to `limit` requests."""
    requests = store.dequeue("w", [QUEUE], limit).requests
    store.complete(requests, [flight.run(request.payload) for request in requests])


def test_workers_and_spark_come_to_the_same_results(job: Job, found: Any) -> None:
    assert check.compare(job.expected, found) == check.Compared(0, 0, 0, 0, ())
    results = [json.loads(row.result) for row in job.expected.collect()]
    rows = {result["row_id"]: SimpleNamespace(**result) for result in results}
    assert len(rows) == 156
    status = [rows[row_id].status for row_id in range(150, 156)]
    assert status == ["cancelled", "diverted", "flown", "flown", "flown", "flown"]
    assert rows[152].clock_agrees
    assert (rows[152].miles, rows[152].gained) == (None, 30)
    assert rows[153].dark_seconds == 0, "nine to five on the way to Hawaii"
    assert rows[154].dark_seconds == 0
    assert sum(row.dark_seconds or 0 for row in rows.values()) > 0


TAMPERINGS = {
    "wrong": "update rowlease.queue_history set result = replace(result::text, '\"late\":false',"
    " '\"late\":true')::json where request_id = {id}",
    "missing": "delete from rowlease.queue_history where request_id = {id}",
    "doubled": "insert into rowlease.queue_history"
    " select * from rowlease.queue_history where request_id = {id}",
    "extra": "insert into rowlease.queue_history select * from json_populate_record("
    "(select h from rowlease.queue_history h where request_id = {id}),"
    ' \'{{"request_id": 9999, "payload": {{"row_id": 9999, "carrier": "UA"}}}}\')',
}


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_a_single_tampered_row_is_noticed(kind: str, job: Job, found: Any, sql: Sql) -> None:
    ((request_id, row_id),) = sql(
        "select request_id, (payload->>'row_id')::int from rowlease.queue_history"
        " where result::text like '%\"late\":false%' order by request_id limit 1".replace("%", "%%")
    )
    sql(TAMPERINGS[kind].format(id=request_id))
    compared = check.compare(job.expected, found)
    assert compared._asdict() == {
        **dict.fromkeys(TAMPERINGS, 0),
        kind: 1,
        "examples": (9999 if kind == "extra" else row_id,),
    }
    assert compared.differ == 1


def test_a_result_that_reads_the_same_but_is_another_text_is_wrong(
    job: Job, found: Any, sql: Sql
) -> None:
    sql(
        "update rowlease.queue_history set result = (rtrim(result::text, '}') || ',\"x\":1}')::json"
        " where (payload->>'row_id')::int = 0"
    )
    assert check.compare(job.expected, found) == check.Compared(0, 0, 0, 1, (0,))


def test_the_sums_per_airline_show_where_they_differ(job: Job, found: Any, sql: Sql) -> None:
    rows = by_carrier(job, found)
    assert all(row.agrees for row in rows)
    assert sum(row.flights for row in rows) == 156
    sql("delete from rowlease.queue_history where payload->>'carrier' = 'HA'")
    (hawaiian,) = (r for r in by_carrier(job, found) if r.carrier == "HA")
    assert (hawaiian.flights, hawaiian.agrees) == (0, False)


def test_later_flights_are_more_urgent(job: Job) -> None:
    rows = job.rows.withColumn("priority", urgency()).collect()
    by_delay = sorted(
        (row.arr_delay if row.arr_delay is not None else row.dep_delay, row.priority)
        for row in rows
        if row.dep_delay is not None
    )
    assert [priority for _, priority in by_delay] == sorted(priority for _, priority in by_delay)
    assert {row.priority for row in rows if row.dep_delay is None} == {0}
    assert dict(by_delay)[1] == 3
    assert dict(by_delay)[200] == 9


def test_a_run_continues_until_its_results_were_compared(
    spark: Any, dsn: str, store: Store, source: Input
) -> None:
    store.configure_queue(QUEUE)
    first = find_run(spark, dsn, source)
    assert first.load_id.endswith(":1")
    assert not first.promoted
    run = store.begin_load(first.load_id, QUEUE, "one")
    assert isinstance(run, Begun)
    store.promote(first.load_id, run.run_number, 0)
    assert find_run(spark, dsn, source) == (first.load_id, True)
    close_run(store, first)
    second = find_run(spark, dsn, source)
    assert (second.load_id[-2:], second.promoted) == (":2", False)
    assert not find_run(spark, dsn, source._replace(digest="other")).promoted


class FakeWorker(WorkerProcess):
    """Runs some requests when it is looked at, then ends with an exit code."""

    def __init__(self, store: Store, share: int, code: int) -> None:
        self._store, self._share, self._code = store, share, code
        self.stopped = False

    @property
    def exit_code(self) -> int:
        if self._share:
            work(self._store, self._share)
        return self._code

    def stop(self) -> None:
        self.stopped = True

    def summary(self) -> dict[str, Any] | None:
        return None if self._code else {"finished": self._share}


def enqueued(store: Store, source: Input) -> None:
    from rowlease.model import NewRequest

    store.configure_queue(QUEUE)
    payload = json.dumps(
        dict.fromkeys(FLIGHT_COLUMNS[4:], 1)
        | {
            "row_id": 1,
            "carrier": "UA",
            "origin": "A",
            "dest": "B",
            "time_hour": "2013-01-01",
            "origin_lat": None,
            "origin_lon": None,
            "dest_lat": None,
            "dest_lon": None,
        }
    )
    store.enqueue_many(QUEUE, [NewRequest(kind="flight", payload=payload, priority=3)] * 10)


def test_a_worker_that_dies_is_started_again(store: Store, source: Input, tmp_path: Path) -> None:
    enqueued(store, source)
    workers = [FakeWorker(store, 4, -9), FakeWorker(store, 6, 0)]
    printed: list[str] = []
    samples: list[DrainSample] = []
    done = drain(store, lambda: workers.pop(0), samples.append, printed.append, tmp_path / "log")
    assert len(printed) == 1
    assert printed[0].startswith("The worker was ended by SIGKILL; starting it again.")
    assert (done.finished, len(done.restarts), done.summaries) == (10, 1, [{"finished": 6}])
    assert samples[0].depths == {3: 10}
    assert done.samples[-1].total == 0


def test_a_worker_that_never_starts_is_given_up(
    store: Store, source: Input, tmp_path: Path
) -> None:
    enqueued(store, source)
    log = tmp_path / "log"
    log.write_text("something\nError: the schema is too new\n")
    with pytest.raises(
        RowleaseError, match=r"^the worker failed 3 times in a row .*: the schema is"
    ):
        drain(store, lambda: FakeWorker(store, 0, 3), lambda _: None, lambda _: None, log)


def test_an_interrupted_drain_stops_its_worker(store: Store, source: Input, tmp_path: Path) -> None:
    enqueued(store, source)
    worker = FakeWorker(store, 0, 0)
    looks: list[DrainSample] = []

    def interrupt(sample: DrainSample) -> None:
        looks.append(sample)
        if len(looks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(store, lambda: worker, interrupt, lambda _: None, tmp_path / "log")
    assert worker.stopped


def test_the_demo_runs_is_interrupted_continues_and_starts_anew(
    spark: Any,
    dsn: str,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given: dict[str, Any] = {"rows": 60, "output": tmp_path / "new" / "folder", "concurrency": 1}

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(demo_run, "drain", interrupt)
        assert run_demo(dsn, **given) == 130
    assert "run the same command again to continue" in capsys.readouterr().err

    assert run_demo(dsn, as_json=True, **given) == 0
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert "An earlier run has enqueued 60 rows; continuing" in err
    assert (printed["rows"], printed["differ"], printed["resumed"]) == (60, 0, True)
    assert sum(row["flights"] for row in printed["carriers"]) == 60
    assert sum(wait["requests"] for wait in printed["waits"]) == 60
    assert printed["rows_per_second"].keys() == {"drain", "read_back"}
    picture = Path(printed["plot"]).read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1600, 900)

    expect = flights.expected
    with monkeypatch.context() as patched:
        patched.setattr(
            flights, "expected", lambda frame: expect(frame.replace(1400, 1401, subset="distance"))
        )
        assert run_demo(dsn, **given) == 1
    out = capsys.readouterr().out
    assert out.rstrip().endswith("1 row differs")
    assert "1 wrong; for example row 0" in out
    assert sql("select count(*), count(distinct load_id) from rowlease.queue_history") == [(120, 2)]
