"""How tasks write the rows of a load by COPY, and when they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from rowlease.errors import ConfigError, InvalidRequest, StoreUnavailable
from rowlease.model import Begun, Outcome, Promoted
from rowlease.spark import copy_writer, enqueue, parts
from rowlease.spark.copy_writer import copies
from rowlease.spark.load import new_run
from rowlease.spark.parts import ATTEMPT_BITS, PART_BITS, Parts
from rowlease.store import Store
from tests.spark.lost_answer import GONE

Sql = Callable[..., list[tuple[Any, ...]]]


class Task:
    """The context of a Spark task: attempt 3 at partition 2."""

    def partitionId(self) -> int:
        return 2

    def taskAttemptId(self) -> int:
        return 3


def batches(count: int) -> Iterator[Any]:
    """Batches of one row; the first batch has none."""
    yield pa.RecordBatch.from_arrays([pa.array([], pa.string())], ["payload"])
    for number in range(count):
        yield pa.RecordBatch.from_arrays([pa.array([f'{{"n":{number}}}'])], ["payload"])


def test_a_task_commits_a_part_whenever_it_has_taken_long(
    dsn: str, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.begin_load("x", "default", new_run())
    assert isinstance(run, Begun)
    monkeypatch.setattr(parts, "PART_SECONDS", 0)
    written = Parts(dsn, "k", ["payload"]).stage("x", run, Task(), batches(3))
    first = ((2 << ATTEMPT_BITS) + 3) << PART_BITS
    assert written.parts == [first, first + 1, first + 2, first + 3]
    assert sql("select part, count(*) from rowlease.lane group by part order by part") == [
        (number, 1) for number in written.parts[1:]
    ]
    assert sql("select count(distinct writer) from rowlease.lane") == [(3,)]
    done = Parts(dsn, "k", ["payload"]).promote("x", run.run_number, [written])
    assert done == Promoted(Outcome.OK, 3, 3, 0)
    claimed = store.dequeue("me", ["default"], 3).requests
    assert [request.payload for request in claimed] == ['{"n":0}', '{"n":1}', '{"n":2}']


def test_a_part_may_take_its_time_before_it_is_committed(dsn: str, store: Store, sql: Sql) -> None:
    run = store.begin_load("x", "default", new_run())
    assert isinstance(run, Begun)
    written = Parts(dsn, "k", ["payload"]).stage("x", run, Task(), batches(3))
    assert (len(written.parts), written.num_rows) == (1, 3)
    assert sql("select count(distinct writer), count(*) from rowlease.lane") == [(1, 3)]
    done = Parts(dsn, "k", ["payload"]).promote("x", run.run_number, [written])
    assert done == Promoted(Outcome.OK, 3, 3, 0)


NO_JSON = "nothing was enqueued: a payload or a row's headers are not JSON$"


def test_an_error_of_a_task_ends_the_job_with_its_sentence(spark: Any, dsn: str, sql: Sql) -> None:
    sql(GONE)
    with pytest.raises(StoreUnavailable, match="could not be staged, nothing was") as gone:
        enqueue(spark.range(1000), dsn, queue="default", kind="k", by="copy")
    assert "\n" not in str(gone.value)
    assert isinstance(gone.value.__cause__, PySparkException)
    broken = spark.range(1000).selectExpr("if(id = 5, 'no JSON', '{}') as payload")
    with pytest.raises(InvalidRequest, match=NO_JSON):
        enqueue(broken, dsn, queue="default", kind="k", payload="payload", by="copy")
    with pytest.raises(InvalidRequest, match=NO_JSON):
        enqueue(broken, dsn, queue="default", kind="k", headers="payload", by="copy")


class New:
    """A session that has not been asked yet."""

    def __init__(self, spark: Any) -> None:
        self.range = spark.range


def test_executors_without_rowlease_write_over_jdbc(
    spark: Any, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copies(New(spark), dsn, None)

    def fails(batches: Any) -> Any:
        raise ModuleNotFoundError

    monkeypatch.setattr(copy_writer, "probe", lambda: fails)
    cancelled = New(spark)
    assert not copies(cancelled, dsn, None)
    monkeypatch.undo()
    assert copies(cancelled, dsn, None), "a job that failed was taken for an answer"

    def imports(batches: Any) -> Any:
        missing = "No module named 'rowlease'"
        yield pa.RecordBatch.from_arrays([pa.array([missing])], ["missing"])

    real = copy_writer.probe
    monkeypatch.setattr(copy_writer, "probe", lambda: imports)
    without = New(spark)
    assert not copies(without, dsn, None)
    assert copies(without, dsn, "copy")
    assert not copies(spark, dsn, "jdbc")
    monkeypatch.setattr(copy_writer, "probe", real)
    assert not copies(without, dsn, None), "it was found out once"


def test_sql_server_takes_rows_over_jdbc_alone(spark: Any) -> None:
    there = "mssql://me:word@host/queues"
    assert not copies(spark, there, None)
    with pytest.raises(ConfigError, match='SQL Server has no COPY; leave out by="copy"'):
        copies(spark, there, "copy")


def test_a_way_that_does_not_exist_is_refused(spark: Any, dsn: str) -> None:
    by: Any = "bulk"
    with pytest.raises(InvalidRequest, match='by must be "copy", "jdbc" or None, not \'bulk\''):
        enqueue(spark.range(1), dsn, queue="default", kind="k", by=by)
