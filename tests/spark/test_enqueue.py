"""A DataFrame becomes requests: all rows or none, each once, even if Spark repeats tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from rowlease.errors import (
    ConfigError,
    InvalidRequest,
    LoadLost,
    RowleaseError,
    StoreUnavailable,
)
from rowlease.model import DUE_RANGE, Begun, Outcome, Promoted
from rowlease.spark import enqueue
from rowlease.spark.columns import due_time_column
from rowlease.spark.copy_writer import Way
from rowlease.spark.load import new_run, stage
from rowlease.spark.promotion import promoted
from rowlease.store import Store
from tests.spark.lost_answer import GONE, LostAnswer

Sql = Callable[..., list[tuple[Any, ...]]]
SECRET = "a-password-that-must-not-show"
#: Rows without keys stay in the lane when they are promoted, all others move into the queue.
each_way = pytest.mark.parametrize("by", ["copy", "jdbc"])
both_ways = pytest.mark.parametrize("way", [{}, {"group_key": "id"}], ids=["plain", "grouped"])


def leftovers(sql: Sql) -> int:
    """How many rows wait that are no requests."""
    ((found,),) = sql(
        "select (select count(*) from rowlease.lane)"
        " - (select count(*) from rowlease.requests) + (select count(*) from rowlease.queue)"
    )
    return int(found)


def test_rows_become_requests_with_clamped_priority(
    spark: Any, dsn: str, store: Store, sql: Sql
) -> None:
    store.configure_queue("flights", max_priority=5)
    frame = spark.sql(
        "select id, id * 4 as urgency, if(id = 1, null, 'x') as name, "
        "timestamp'2030-01-01 10:00:00' + make_interval(0, 0, 0, id) as at from range(3)"
    )
    done = enqueue(
        frame,
        dsn,
        queue="flights",
        kind="flight",
        priority="urgency",
        dedup_key="id",
        group_key=F.concat(F.lit("group "), "id"),
        due_time="at",
        load_id="first",
    )
    assert done == Promoted(Outcome.OK, 3, 3, 0, 1)
    rows = sql(
        "select kind, priority, dedup_key, group_key, due_time, load_id, payload::text, status"
        " from rowlease.requests where queue_name = 'flights' order by request_id"
    )
    assert [row[1] for row in rows] == [0, 4, 5]
    assert rows[1][0] == "flight"
    assert rows[1][2:6] == ("1", "group 1", datetime(2030, 1, 2, 10, tzinfo=UTC), "first")
    assert json.loads(rows[1][6]) == {
        "id": 1,
        "urgency": 4,
        "name": None,
        "at": "2030-01-02T10:00:00.000000Z",
    }
    assert {row[7] for row in rows} == {"Scheduled"}


def test_each_row_can_have_its_own_kind_and_payload(spark: Any, dsn: str, sql: Sql) -> None:
    frame = spark.createDataFrame(
        [("a", '{"x": 1}', 10**12), ("b", None, None)], "name string, json string, urgency bigint"
    )
    enqueue(frame, dsn, queue="default", kind=F.col("name"), payload="json", priority="urgency")
    enqueue(frame, dsn, queue="default", kind="c", payload=F.struct("name"), priority=3)
    assert sql("select kind, payload::text, priority from rowlease.requests order by 1, 2") == [
        ("a", '{"x": 1}', 9),
        ("b", "{}", 0),
        ("c", '{"name":"a"}', 3),
        ("c", '{"name":"b"}', 3),
    ]


@both_ways
def test_the_same_load_id_again_enqueues_nothing(
    spark: Any, dsn: str, store: Store, sql: Sql, way: dict[str, Any]
) -> None:
    frame = spark.range(1000)
    first = enqueue(frame, dsn, queue="default", kind="k", load_id="once", store=store, **way)
    again = enqueue(frame, dsn, queue="default", kind="k", load_id="once", store=store, **way)
    assert (first.outcome, again.outcome) == (Outcome.OK, Outcome.REPEAT)
    assert again[1:] == first[1:] == (1000, 1000, 0, 0)
    assert sql("select count(*) from rowlease.requests") == [(1000,)]
    assert leftovers(sql) == 0


def begun(store: Store, load_id: str) -> Begun:
    run = store.begin_load(load_id, "default", new_run())
    assert isinstance(run, Begun)
    return run


@both_ways
def test_a_run_that_died_before_its_promotion_is_finished_by_the_next(
    spark: Any, dsn: str, store: Store, sql: Sql, way: dict[str, Any]
) -> None:
    frame = spark.range(1000)
    stage(frame, dsn, load_id="dies", run=begun(store, "dies"), kind="k", **way)
    assert sql("select count(*) from rowlease.requests") == [(0,)]
    assert leftovers(sql) == 1000
    done = enqueue(frame, dsn, queue="default", kind="k", load_id="dies", **way)
    assert done == Promoted(Outcome.OK, 1000, 1000, 0)
    assert sql("select count(distinct payload::text) from rowlease.requests") == [(1000,)]


@both_ways
def test_a_run_that_was_superseded_writes_nothing(
    spark: Any, dsn: str, store: Store, sql: Sql, way: dict[str, Any]
) -> None:
    given = {"load_id": "zombie", "kind": "k", **way}
    superseded = begun(store, "zombie")
    dead = stage(spark.range(10, 17), dsn, run=superseded, **given)
    load = stage(spark.range(10), dsn, run=begun(store, "zombie"), **given)
    with pytest.raises(LoadLost, match='nothing was enqueued: load "zombie" was taken over by'):
        stage(spark.range(3), dsn, run=superseded, **given)  # its late tasks
    with pytest.raises(LoadLost, match='load "zombie" was taken over by'):
        promoted(store, dead)
    assert promoted(store, load) == Promoted(Outcome.OK, 10, 10, 0)
    found = sql("select (payload ->> 'id')::int from rowlease.requests order by 1")
    assert [number for (number,) in found] == list(range(10))
    store.maintain()
    assert leftovers(sql) == 0


def test_a_load_and_its_jobs_name_each_other(spark: Any, dsn: str, store: Store) -> None:
    context = spark.sparkContext
    enqueue(spark.range(3), dsn, queue="default", kind="k", load_id="daily")
    enqueue(spark.range(3), dsn, queue="default", kind="k", load_id="hourly", by="jdbc")
    context.setJobDescription("mine")
    try:
        enqueue(spark.range(3), dsn, queue="default", kind="k", load_id="own")
    finally:
        context.setLocalProperty("spark.job.description", None)
    jobs = context._jsc.sc().statusStore().jobsList(None)
    described = [jobs.apply(n).description() for n in range(jobs.size())]
    texts = {each.get() for each in described if each.isDefined()}
    assert {"rowlease: load daily into default", "rowlease: load hourly into default"} <= texts
    assert "mine" in texts
    assert "rowlease: load own into default" not in texts
    assert context.getLocalProperty("spark.job.description") is None
    (load, *_) = store.list_loads()
    assert load.run_by.startswith(f"{context.applicationId}@")


def test_a_promoted_load_runs_no_job_again(spark: Any, dsn: str) -> None:
    frame = spark.range(10)
    enqueue(frame, dsn, queue="default", kind="k", load_id="once")
    fails = frame.select(F.raise_error(F.lit("it ran")).cast("bigint").alias("id"))
    again = enqueue(fails, dsn, queue="default", kind="k", load_id="once")
    assert again == Promoted(Outcome.REPEAT, 10, 10, 0)


def test_other_columns_under_a_promoted_load_id_are_refused(spark: Any, dsn: str, sql: Sql) -> None:
    enqueue(spark.range(3), dsn, queue="default", kind="k", load_id="x")
    drifted = spark.range(3).withColumn("more", F.lit(1))
    with pytest.raises(
        InvalidRequest, match="other columns: payload struct<id:bigint>, kind 'k', not"
    ):
        enqueue(drifted, dsn, queue="default", kind="k", load_id="x")
    with pytest.raises(InvalidRequest, match="not payload struct<id:bigint>, dedup_key string"):
        enqueue(spark.range(3), dsn, queue="default", kind="k", dedup_key="id", load_id="x")
    assert sql("select count(*) from rowlease.requests") == [(3,)]


def test_a_load_that_failed_may_come_again_with_other_columns(spark: Any, dsn: str) -> None:
    frame = spark.range(3)
    broken = frame.withColumn("payload", F.lit("no JSON"))
    with pytest.raises(InvalidRequest, match="not JSON"):
        enqueue(broken, dsn, queue="default", kind="k", payload="payload", load_id="x")
    assert enqueue(frame, dsn, queue="default", kind="k", load_id="x").num_enqueued == 3


def test_the_ledger_says_how_many_rows_are_staged(spark: Any, dsn: str, sql: Sql) -> None:
    enqueue(spark.range(0, 1000, 1, 5), dsn, queue="default", kind="k", load_id="x")
    assert sql("select num_staged, num_rows, rows_per_second > 0 from rowlease.load") == [
        (1000, 1000, True)
    ]


def test_equal_rows_are_two_requests_and_equal_keys_are_one(spark: Any, dsn: str, sql: Sql) -> None:
    frame = spark.createDataFrame([(7,), (7,), (8,)], "n int")
    assert enqueue(frame, dsn, queue="default", kind="k").num_enqueued == 3
    keyed = enqueue(frame, dsn, queue="default", kind="k", dedup_key="n")
    assert (keyed.num_enqueued, keyed.num_duplicates) == (2, 1)


@both_ways
def test_a_task_retried_after_its_commit_enqueues_no_row_twice(
    spark: Any, dsn: str, sql: Sql, way: dict[str, Any]
) -> None:
    frame = spark.range(0, 1000, 1, 2)
    with LostAnswer(dsn) as proxy:
        done = enqueue(frame, proxy.dsn, queue="default", kind="k", load_id="lossy", **way)
    assert proxy.lost == 1, "the test lost no answer, so it showed nothing"
    assert done == Promoted(Outcome.OK, 1000, 1000, 0)
    found = sql("select count(*), count(distinct payload::text) from rowlease.requests")
    assert found == [(1000, 1000)]
    assert leftovers(sql) == 0


@each_way
def test_a_retried_task_may_compute_another_number_of_rows(
    spark: Any, dsn: str, sql: Sql, by: Way
) -> None:
    now = "reflect('java.lang.System', 'nanoTime')"
    frame = spark.range(0, 2000, 1, 2).where(f"cast({now} as bigint) % 2 = 0")
    with LostAnswer(dsn) as proxy:
        done = enqueue(frame, proxy.dsn, queue="default", kind="k", by=by)
    assert proxy.lost == 1, "the test lost no answer, so it showed nothing"
    assert 0 < done.num_enqueued < 2000
    assert sql("select count(distinct payload::text) from rowlease.requests") == [(done.num_rows,)]


@each_way
def test_the_writers_are_capped_and_not_the_tasks_that_compute(
    spark: Any, dsn: str, sql: Sql, by: Way
) -> None:
    frame = spark.range(0, 1000, 1, 8).withColumn("computed_by", F.spark_partition_id())
    done = enqueue(frame, dsn, queue="default", kind="k", writers=1, by=by)
    assert done == Promoted(Outcome.OK, 1000, 1000, 0)
    assert sql("select count(distinct xmin::text) from rowlease.lane") == [(1,)]
    found = sql(
        "select count(distinct (payload ->> 'computed_by')::int),"
        " array_agg((payload ->> 'id')::int order by part, request_id) from rowlease.lane"
    )
    assert found == [(8, list(range(1000)))]


@pytest.mark.usefixtures("registered")
def test_a_cap_on_writers_is_none_on_the_work_above(spark: Any, dsn: str) -> None:
    def tasks(way: Callable[[], object]) -> list[int]:
        """The numbers of tasks of the stages that ran."""
        group, tracker = uuid.uuid4().hex, spark.sparkContext.statusTracker()
        spark.sparkContext.setJobGroup(group, "")
        try:
            way()
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        stages = [
            tracker.getStageInfo(stage)
            for job in tracker.getJobIdsForGroup(group)
            for stage in tracker.getJobInfo(job).stageIds
        ]
        return [stage.numCompletedTasks for stage in stages if stage and stage.numCompletedTasks]

    frame = spark.range(0, 100, 1, 8).selectExpr("'{}' as payload")
    given: dict[str, Any] = {"queue": "default", "kind": "k"}
    jdbc = tasks(lambda: enqueue(frame, dsn, payload="payload", writers=2, **given))
    assert set(jdbc) == {1, 2, 8}, "8 compute, 1 counts, 2 write"
    assert jdbc.count(2) == 1
    capped = frame.repartition(2).write.format("rowlease").options(dsn=dsn, **given)
    assert sorted(tasks(capped.mode("append").save)) == [2, 8]
    squeezed = frame.coalesce(2).write.format("rowlease").options(dsn=dsn, **given)
    assert tasks(squeezed.mode("append").save) == [2], "the documentation warns of coalesce"


def test_a_frame_of_pandas_and_no_dsn_are_named(spark: Any, dsn: str) -> None:
    frame = spark.range(3)
    with pytest.raises(InvalidRequest, match=r"df is a pandas\..*; it must be a DataFrame of"):
        enqueue(frame.toPandas(), dsn, queue="default", kind="k")
    with pytest.raises(ConfigError, match="dsn is a NoneType; it must be a string"):
        enqueue(frame, None, queue="default", kind="k")  # type: ignore[arg-type]


def test_columns_of_one_name_are_refused(spark: Any, dsn: str) -> None:
    one, other = spark.range(3).alias("one"), spark.range(3).alias("other")
    joined = one.join(other, F.col("one.id") == F.col("other.id"))
    says = "the frame has several columns 'id'; drop or rename all but one"
    with pytest.raises(InvalidRequest, match=says):
        enqueue(joined, dsn, queue="default", kind="k")
    with pytest.raises(InvalidRequest, match=says):
        enqueue(joined, dsn, queue="default", kind="k", payload=F.lit("{}"), dedup_key="id")
    done = enqueue(joined.drop(F.col("other.id")), dsn, queue="default", kind="k")
    assert done.num_enqueued == 3


def test_columns_that_differ_only_in_capitals_are_refused(spark: Any, dsn: str) -> None:
    frame = spark.createDataFrame([(1, 2)], "a int, A int")
    says = "the frame has several columns 'a' or 'A'; drop or rename all but one"
    with pytest.raises(InvalidRequest, match=says):
        enqueue(frame, dsn, queue="default", kind="k")
    with pytest.raises(InvalidRequest, match=says):
        enqueue(frame, dsn, queue="default", kind="k", payload=F.lit("{}"), dedup_key="A")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        done = enqueue(frame, dsn, queue="default", kind="k", dedup_key="A")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert done.num_enqueued == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"writers": 1.5}, "writers must be an integer of 1 or more, not 1.5"),
        ({"writers": True}, "writers must be an integer of 1 or more, not True"),
        ({"writers": 0}, "writers must be an integer of 1 or more, not 0"),
        ({"load_id": 5}, "load_id is 5; it must be a string"),
        ({"load_id": "x "}, "load_id 'x ' ends in a blank; leave the blank out"),
        ({"load_id": ""}, "load_id must have 1 to 100 characters"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_load_begins(
    given: dict[str, Any], says: str, spark: Any, dsn: str, sql: Sql
) -> None:
    with pytest.raises(InvalidRequest, match=f"^{says}$"):
        enqueue(spark.range(3), dsn, queue="default", kind="k", **given)
    assert sql("select count(*) from rowlease.load") == [(0,)]


@pytest.mark.usefixtures("registered")
def test_a_due_time_that_no_request_may_have_is_refused_by_both_ways(
    spark: Any, dsn: str, sql: Sql
) -> None:

    def due(*seconds: int) -> Any:
        return spark.sql(
            "select '{}' as payload, timestamp_seconds(second) as due_time"
            f" from explode(array{seconds}) as t(second)"
        )

    def over_jdbc(frame: Any) -> None:
        enqueue(frame, dsn, queue="default", kind="k", payload="payload", due_time="due_time")

    def by_format(frame: Any) -> None:
        given = {"dsn": dsn, "queue": "default", "kind": "k"}
        frame.write.format("rowlease").options(**given).mode("append").save()

    earliest, latest = -62_135_596_800, 253_402_214_400
    for second in (earliest - 1, latest + 1):  # before a driver is given the time
        frame = due(0, second)
        with pytest.raises(PySparkException, match=DUE_RANGE):
            frame.select(due_time_column(frame, "due_time")).collect()
    for way, outside, error in (
        (over_jdbc, earliest - 1, InvalidRequest),
        (over_jdbc, latest + 1, InvalidRequest),
        (over_jdbc, 9_000_000_000_000, InvalidRequest),
        (by_format, -9_000_000_000_000, PySparkException),
    ):
        with pytest.raises(error, match=rf": {DUE_RANGE}$"):
            way(due(0, outside))
    assert sql("select count(*) from rowlease.requests") == [(0,)]
    over_jdbc(due(earliest, latest))
    assert sql("select count(*), max(due_time) from rowlease.requests") == [
        (2, datetime(9999, 12, 31, tzinfo=UTC))
    ]


@each_way
def test_a_job_that_is_cancelled_is_one_sentence(spark: Any, dsn: str, sql: Sql, by: Way) -> None:
    if spark.version.startswith("3"):
        pytest.skip("before Spark 4, only running jobs can be cancelled")
    context, group = spark.sparkContext, uuid.uuid4().hex
    context._jsc.sc().cancelJobGroupAndFutureJobs(group)
    context.setJobGroup(group, "")
    try:
        with pytest.raises(RowleaseError) as raised:
            enqueue(spark.range(3), dsn, queue="default", kind="k", by=by)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert str(raised.value) == (
        "the rows could not be staged, nothing was enqueued: the Spark job was cancelled"
    )
    assert sql("select count(*) from rowlease.requests") == [(0,)]


@pytest.mark.parametrize("routine", ["begin_load", "promote"])
def test_a_call_whose_answer_is_lost_is_made_again(
    spark: Any, dsn: str, store: Store, sql: Sql, monkeypatch: pytest.MonkeyPatch, routine: str
) -> None:
    call, answers = getattr(store, routine), []

    def loses_its_answer(*args: Any, **kwargs: Any) -> Any:
        answers.append(call(*args, **kwargs))
        if len(answers) == 1:
            raise StoreUnavailable
        return answers[-1]

    monkeypatch.setattr(store, routine, loses_its_answer)
    done = enqueue(spark.range(10), dsn, queue="default", kind="k", load_id="x", store=store)
    assert done[1:] == (10, 10, 0, 0)
    assert len(answers) == 2, "the test lost no answer, so it showed nothing"
    assert sql("select count(*) from rowlease.requests") == [(10,)]
    assert leftovers(sql) == 0


def test_rows_from_a_source_that_answers_differently_each_time_are_counted_once(
    spark: Any, dsn: str, sql: Sql
) -> None:
    frame = spark.range(2000).where(F.rand() < 0.5)
    done = enqueue(frame, dsn, queue="default", kind="k")
    assert sql("select count(*) from rowlease.requests") == [(done.num_rows,)]


def test_a_frame_without_rows_is_an_empty_load(spark: Any, dsn: str) -> None:
    empty = spark.createDataFrame([], "a int")
    assert enqueue(empty, dsn, queue="default", kind="k") == Promoted(Outcome.OK, 0, 0, 0)
    filtered = spark.range(10).where("id > 10")
    assert enqueue(filtered, dsn, queue="default", kind="k") == Promoted(Outcome.OK, 0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"priority": "lateness"}, r"priority is 'lateness'.*its columns are id, name, at"),
        ({"dedup_key": "nope"}, "dedup_key is 'nope'"),
        ({"priority": "name"}, "priority: the column 'name' has the type string; cast it"),
        ({"due_time": "id"}, "due_time: the column 'id' has the type bigint; cast it to timestamp"),
        ({"group_key": "at"}, "group_key: the column 'at' has the type timestamp"),
        ({"payload": "id"}, "payload: the column 'id' has the type bigint"),
        ({"payload": 3}, "payload must be a column name or a Column"),
        ({"priority": -1}, "priority must be 0 or more"),
        ({"priority": True}, "priority must be an int"),
        ({"queue": None}, "queue must be the name of a queue"),
        ({"queue": "nowhere"}, 'queue "nowhere" does not exist'),
        ({"kind": ""}, "kind must be the name of a task"),
        ({"writers": 0}, "writers must be an integer of 1 or more, not 0"),
        ({"load_id": ""}, "load_id must have 1 to 100 characters"),
        ({"load_id": "x" * 101}, "load_id must have 1 to 100 characters"),
    ],
)
def test_a_wrong_column_is_named_before_any_job_runs(
    arguments: dict[str, Any], says: str, spark: Any, dsn: str
) -> None:
    frame = spark.range(3).withColumn("name", F.lit("x")).withColumn("at", F.current_timestamp())
    group = f"group of {arguments}"
    spark.sparkContext.setJobGroup(group, "")
    with pytest.raises(InvalidRequest, match=says):
        enqueue(frame, dsn, **{"queue": "default", "kind": "k", **arguments})
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == []


def test_an_expression_that_does_not_fit_the_frame_is_an_error_of_one_line(
    spark: Any, dsn: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        InvalidRequest, match=r"^group_key cannot be evaluated on the frame: .*`nope`.*$"
    ):
        enqueue(spark.range(3), dsn, queue="default", kind="k", group_key=F.col("nope"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("payload", "arguments", "says"),
    [
        ("no json", {}, "not JSON"),
        ('{"a": 1}', {"queue": "nix"}, 'queue "nix" does not exist'),
        ('{"a": 1}', {"priority": "minus"}, "a priority is below 0"),
        ('{"a": "\x00"}', {}, "a string has a character that the database refuses"),
        (f'{{"a": "{"x" * 2**20}"}}', {}, "a payload has over 1048576 bytes"),
        ("[1]", {}, "payload must be a JSON object of arguments by name"),
        (r'{"a": "\ud800"}', {}, "without half of a surrogate pair"),
        ("[1]", {"dedup_key": "json"}, "payload must be a JSON object of arguments by name"),
    ],
)
def test_nothing_enters_the_queue_unless_the_whole_load_does(
    payload: str, arguments: dict[str, Any], says: str, spark: Any, dsn: str, sql: Sql
) -> None:
    rows = [("{}", 0)] * 500 + [(payload, -4)]
    frame = spark.createDataFrame(rows, "json string, minus int")
    given = {"queue": "default", "kind": "k", "payload": "json", **arguments}
    with pytest.raises(InvalidRequest, match=says) as raised:
        enqueue(frame, dsn, **given)
    assert "\n" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]


@pytest.mark.parametrize("keyed", [False, True])
def test_a_text_that_names_an_argument_twice_is_refused(
    keyed: bool, spark: Any, dsn: str, sql: Sql
) -> None:
    frame = spark.range(100).selectExpr("""'{"a": 1, "b": 2, "a": 3}' as json""", "id")
    keys: dict[str, Any] = {"dedup_key": "id"} if keyed else {}
    with pytest.raises(InvalidRequest, match='payload names the argument "a" twice') as raised:
        enqueue(frame, dsn, queue="default", kind="k", payload="json", **keys)
    assert "\n" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]


@each_way
def test_a_database_that_goes_away_in_mid_load_leaves_a_load_that_can_come_again(
    spark: Any, dsn: str, sql: Sql, by: Way
) -> None:
    sql(GONE)
    with pytest.raises(
        StoreUnavailable, match="could not be staged, nothing was enqueued"
    ) as raised:
        enqueue(spark.range(1000), dsn, queue="default", kind="k", load_id="x", by=by)
    assert "\n" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]
    sql("drop function rowlease.gone cascade")
    done = enqueue(spark.range(1000), dsn, queue="default", kind="k", load_id="x", by=by)
    assert done == Promoted(Outcome.OK, 1000, 1000, 0)


@each_way
def test_an_error_from_the_driver_shows_no_row_and_no_password(
    spark: Any, dsn: str, capfd: pytest.CaptureFixture[str], by: Way
) -> None:
    frame = spark.createDataFrame([('{"card": "4111 1111\x00"}',)], "json string")
    dsn, password = with_password(dsn)
    with pytest.raises(InvalidRequest) as raised:
        enqueue(frame, dsn, queue="default", kind="k", payload="json", by=by)
    reported = f"{raised.value} {raised.value.__cause__} {capfd.readouterr()}"
    assert "4111" not in reported
    assert password not in reported


@each_way
def test_the_password_stays_out_of_sparks_settings_and_event_log(
    spark: Any, dsn: str, event_log: Path, by: Way
) -> None:
    dsn, password = with_password(dsn)
    enqueue(spark.range(3), dsn, queue="default", kind="k", by=by)
    logged = "".join(path.read_text() for path in event_log.rglob("*") if path.is_file())
    assert ("rowlease.load_inbox" if by == "jdbc" else "MapInArrow") in logged
    assert password not in logged
    assert password not in str(spark.sparkContext.getConf().getAll())


@pytest.mark.usefixtures("registered")
def test_a_local_session_hides_the_dsn_of_a_table_that_somebody_saves(
    spark: Any, dsn: str, event_log: Path
) -> None:
    dsn, password = with_password(dsn)
    rows = spark.sql("select '{}' as payload")
    rows.write.format("rowlease").options(dsn=dsn, queue="default", kind="k").saveAsTable("saved")
    spark.sql("drop table saved")
    spark.range(1).collect()  # writes the events before it to the disk
    logged = "".join(path.read_text() for path in event_log.rglob("*") if path.is_file())
    assert "[dsn=*********(redacted), queue=default, kind=k]" in logged
    assert password not in logged


@both_ways
def test_the_role_of_a_producer_is_enough(
    spark: Any, dsn: str, sql: Sql, way: dict[str, Any]
) -> None:
    sql("drop role if exists rowlease_test_spark")
    sql(f"create role rowlease_test_spark login password '{SECRET}' in role rowlease_producer")
    url = sa.make_url(dsn).set(username="rowlease_test_spark", password=SECRET)
    try:
        mine = url.render_as_string(hide_password=False)
        assert enqueue(spark.range(3), mine, queue="default", kind="k", **way).num_enqueued == 3
    finally:
        sql("drop role rowlease_test_spark")


def test_a_database_that_is_not_there_is_one_sentence(spark: Any) -> None:
    nowhere = f"postgresql://me:{SECRET}@127.0.0.1:1/nowhere"
    with pytest.raises(StoreUnavailable, match=r"me:\*\*\*@127.0.0.1:1/nowhere") as raised:
        enqueue(spark.range(3), nowhere, queue="default", kind="k")
    assert "\n" not in str(raised.value)


def test_an_unreadable_dsn_is_an_error_before_any_job(spark: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        enqueue(spark.range(3), "postgresql://host/x?nonsense=1", queue="default", kind="k")


def with_password(dsn: str) -> tuple[str, str]:
    """A DSN with a password, and that password; a server that trusts does not ask for it."""
    url = sa.make_url(dsn)
    if url.password is None:
        url = url.set(password=SECRET)
    return url.render_as_string(hide_password=False), str(url.password)


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_headers_are_a_dict_or_a_column(keyed: bool, spark: Any, dsn: str, sql: Sql) -> None:
    keys: dict[str, Any] = {"dedup_key": "id"} if keyed else {}
    rows = spark.range(2)
    column = F.create_map(F.lit("n"), F.col("id").cast("string"))
    enqueue(rows, dsn, queue="default", kind="all", headers={"tenant": "ü'"}, **keys)
    enqueue(rows, dsn, queue="default", kind="each", headers=column)
    found = sql("select kind, headers::json::text from rowlease.requests order by 1, 2")
    assert found == [
        ("all", '{"tenant":"ü\'"}'),
        ("all", '{"tenant":"ü\'"}'),
        ("each", '{"n":"0"}'),
        ("each", '{"n":"1"}'),
    ]
    with pytest.raises(InvalidRequest, match="headers"):
        enqueue(rows, dsn, queue="default", kind="k", headers="id")


def test_times_of_a_payload_keep_their_microseconds(spark: Any, dsn: str, sql: Sql) -> None:
    frame = spark.sql(
        "select timestamp'1969-12-31 23:59:59.999999Z' as at,"
        " timestamp_ntz'2026-03-29 01:30:00.123456' as local, 12345678901234567890 as id"
    )
    enqueue(frame, dsn, queue="default", kind="k", dedup_key="id", load_id="x")
    assert sql("select payload::text, dedup_key from rowlease.queue") == [
        (
            '{"at":"1969-12-31T23:59:59.999999Z","local":"2026-03-29T01:30:00.123456",'
            '"id":12345678901234567890}',
            "12345678901234567890",
        )
    ]
    with pytest.raises(InvalidRequest, match=r"was enqueued from other columns: .* kind 'k', not"):
        enqueue(frame, dsn, queue="default", kind="other", dedup_key="id", load_id="x")
