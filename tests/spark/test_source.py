"""`format("rowlease")`: written whole or not at all, each row once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.model import DUE_RANGE, Begun, Outcome, Promoted
from rowlease.spark import register
from rowlease.spark.arrow_csv import due_times
from rowlease.spark.source import RowleaseSource
from rowlease.store import Store
from tests.spark.lost_answer import GONE, LostAnswer

Sql = Callable[..., list[tuple[Any, ...]]]

OBJECT = (
    "payload must be a JSON object of arguments by name, without half of a surrogate pair "
    r"(\ud800 to \udfff)"
)


@pytest.fixture
def frame(spark: Any) -> Any:
    """1,000 rows in two partitions."""
    register(spark)
    return spark.range(0, 1000, 1, 2).select(F.to_json(F.struct("id")).alias("payload"))


def write(frame: Any, dsn: str, **options: Any) -> None:
    given = {"dsn": dsn, "queue": "default", "kind": "k", **options}
    frame.write.format("rowlease").options(**given).mode("append").save()


def test_columns_arrive_as_they_are(
    spark: Any, dsn: str, store: Store, sql: Sql, frame: Any
) -> None:
    store.configure_queue("default", max_priority=5)
    rows = spark.sql(
        """select * from values
        ('{"a": "x,\\\\"y\\\\"\\\\n"}', 'own', 10000000000L,
         timestamp'2030-01-01 10:00:00.5', 'k,1', 'g"'),
        ('{"a": "żółć \U0001f6eb"}', null, null, null, '', null),
        (null, null, -0L, null, null, '\\\\N')
        as t(payload, kind, priority, due_time, dedup_key, group_key)"""
    ).coalesce(1)
    write(rows, dsn, load_id="x")
    found = sql(
        "select payload::text, kind, priority, due_time, dedup_key, group_key, status, load_id"
        " from rowlease.queue order by request_id"
    )
    assert [json.loads(row[0]) for row in found] == [
        {"a": 'x,"y"\n'},
        {"a": "żółć \U0001f6eb"},
        {},
    ]
    due = datetime(2030, 1, 1, 10, 0, 0, 500000, tzinfo=UTC)
    assert found[0][1:] == ("own", 5, due, "k,1", 'g"', "Scheduled", "x")
    assert [found[1][1], found[1][2], *found[1][4:7]] == ["k", 0, "", None, "Pending"]
    assert [found[2][2], *found[2][4:6]] == [0, None, "\\N"]


def test_the_same_load_id_again_enqueues_nothing(frame: Any, dsn: str, sql: Sql) -> None:
    for _ in range(2):
        write(frame, dsn, load_id="once")
    assert sql("select count(*), count(distinct payload::text) from rowlease.requests") == [
        (1000, 1000)
    ]
    assert sql("select count(*) from rowlease.lane") == [(1000,)]
    assert sql("select num_rows, num_enqueued, num_staged from rowlease.load") == [
        (1000, 1000, 1000)  # the second run staged nothing
    ]


def test_other_columns_under_a_promoted_load_id_are_refused(frame: Any, dsn: str, sql: Sql) -> None:
    write(frame, dsn, load_id="x")
    with pytest.raises(
        PySparkException, match="other columns: payload string, kind 'k', not payload str"
    ):
        write(frame.withColumn("priority", F.lit(1)), dsn, load_id="x")
    assert sql("select count(*) from rowlease.requests") == [(1000,)]


def test_rows_keep_the_frames_order(frame: Any, dsn: str, store: Store) -> None:
    write(frame, dsn)
    claimed = store.dequeue("w", ["default"], 1000).requests
    assert [json.loads(request.payload)["id"] for request in claimed] == list(range(1000))


def test_rows_are_written_by_priority_and_keep_the_frames_order_within_one(
    frame: Any, dsn: str, store: Store, sql: Sql
) -> None:
    write(frame.withColumn("priority", F.get_json_object("payload", "$.id").cast("int") % 3), dsn)
    for (written,) in sql(
        "select array_agg(priority order by request_id) from rowlease.lane group by part"
    ):
        assert written == sorted(written)
    claimed = store.dequeue("w", ["default"], 1000).requests
    ids = [json.loads(request.payload)["id"] for request in claimed]
    assert ids == sorted(range(1000), key=lambda n: (-(n % 3), n))


def test_of_equal_keys_the_first_row_of_the_frame_counts(
    spark: Any, dsn: str, sql: Sql, frame: Any
) -> None:
    rows = spark.sql(
        """select * from values ('{"n": 1}', 9, 'k'), ('{"n": 2}', 0, 'k')
        as t(payload, priority, dedup_key)"""
    ).coalesce(1)
    write(rows, dsn)
    assert sql("select payload::text, priority from rowlease.queue") == [('{"n": 1}', 9)]


def test_a_task_retried_after_its_commit_enqueues_no_row_twice(
    frame: Any, dsn: str, sql: Sql
) -> None:
    with LostAnswer(dsn) as proxy:
        write(frame, proxy.dsn)
    assert proxy.lost == 1, "the test lost no answer, so it showed nothing"
    assert sql("select count(*), count(distinct payload::text) from rowlease.requests") == [
        (1000, 1000)
    ]


def test_a_retried_task_need_not_compute_the_same_rows(
    spark: Any, frame: Any, dsn: str, sql: Sql
) -> None:
    random = frame.withColumn("payload", F.concat(F.lit('{"n": '), F.rand(), F.lit("}")))
    with LostAnswer(dsn) as proxy:
        write(random, proxy.dsn)
    assert proxy.lost == 1
    assert sql("select count(*) from rowlease.requests") == [(1000,)]


def test_what_a_run_that_died_left_behind_does_not_count(
    frame: Any, dsn: str, store: Store, sql: Sql
) -> None:
    dead = store.begin_load("x", "default", "dead")
    assert isinstance(dead, Begun)
    sql(
        "insert into rowlease.lane (run_number, priority, part, kind, payload)"
        " values (%s, 0, 77, 'k', '{}')",
        [dead.run_number],
    )
    write(frame, dsn, load_id="x")
    assert store.begin_load("x", "default", "next") == Promoted(Outcome.REPEAT, 1000, 1000, 0)
    store.maintain()
    assert sql("select count(*) from rowlease.lane") == [(1000,)]


def test_rows_of_another_try_of_a_task_do_not_count(frame: Any, dsn: str, sql: Sql) -> None:
    sql(
        """create function rowlease.zombie() returns trigger language plpgsql as $$ begin
        insert into rowlease.lane (run_number, priority, part, kind, payload)
        select run_number, 0, pg_backend_pid(), 'a', '{}' from rowlease.load;
        insert into rowlease.lane_part
          (run_number, priority, part, writer, num_rows, first_id, last_id)
        select run_number, 0, pg_backend_pid(), txid_current() & 2147483647, 1, lastval(), lastval()
          from rowlease.load;
        return null; end $$"""
    )
    sql(
        "create trigger zombie after insert on rowlease.lane when (pg_trigger_depth() = 0)"
        " execute function rowlease.zombie()"
    )
    write(frame, dsn, load_id="x")
    assert sql("select count(*), count(distinct payload::text) from rowlease.requests") == [
        (1000, 1000)
    ]


def test_due_times_of_all_years_but_no_others_are_written() -> None:
    import pyarrow as pa

    def due(*microseconds: int | None) -> Any:
        return pa.array(microseconds, pa.timestamp("us", "UTC"))

    earliest, latest = -62_135_596_800_000_000, 253_402_214_400_000_000
    for allowed in (due(earliest, None, latest), due(None), due()):
        assert due_times(allowed) == allowed
    for outside in earliest - 1, latest + 1:
        with pytest.raises(InvalidRequest, match=f"^{DUE_RANGE}$"):
            due_times(due(0, outside, None))


IMPORTS_NO_PANDAS = """
import sys
import pyarrow as pa
from pyarrow import csv
from rowlease.model import Begun
from rowlease.spark.arrow_csv import lane_block

text, at = pa.large_string(), pa.timestamp("us", "UTC")
types = {"payload": text, "priority": pa.int32(), "due_time": at, "dedup_key": text}
given = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
rows = pa.py_buffer(
    "payload,priority,due_time,dedup_key\\n{},70,2026-01-01T00:00:00.000001Z,\u00e4\\n,,,\\n".encode()
)
(frame,) = csv.read_csv(rows, convert_options=given).to_batches()
block, clamped = lane_block(frame, Begun(1 << 40, 9), 3, "send", True)
assert block.decode().splitlines() == [
    '1099511627776,3,true,9,"send","{}",2026-01-01 00:00:00.000001Z,"\u00e4"',
    '1099511627776,3,,0,"send","{}",,',
], block
assert clamped == 1
assert "pandas" not in sys.modules
"""


def test_a_process_of_spark_writes_without_importing_pandas() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS_NO_PANDAS], check=True)


def test_an_empty_frame_is_an_empty_load(frame: Any, dsn: str, sql: Sql) -> None:
    write(frame.where("false"), dsn, load_id="nothing")
    assert sql("select status, num_rows from rowlease.load") == [("Promoted", 0)]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("'x' as payload", "a payload or a row's headers are not JSON"),
        ("'[1]' as payload", OBJECT),
        (r"""'{"a": "\\ud800"}' as payload""", OBJECT),
        (
            """'{"a": 1, "a": 2}' as payload""",
            'payload names the argument "a" twice; give each argument one value',
        ),
        (
            "char(0) as payload",
            "a string has a character that the database refuses: "
            'invalid byte sequence for encoding "UTF8": 0x00',
        ),
    ],
    ids=["no JSON", "a list", "half a pair", "an argument twice", "NUL"],
)
def test_nothing_enters_the_queue_unless_all_does(
    column: str, says: str, frame: Any, dsn: str, store: Store, sql: Sql
) -> None:
    last = frame.limit(1).selectExpr(column)
    with pytest.raises(PySparkException) as raised:
        write(frame.union(last), dsn)
    # PySpark 4.1 adds a line of its own before it.
    assert str(raised.value).splitlines()[-1] == f"rowlease.errors.InvalidRequest: {says}"
    assert "Traceback" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]
    store.maintain()
    assert sql("select count(*) from rowlease.lane") == [(0,)]


def test_an_error_before_or_after_the_tasks_is_a_sentence_without_a_traceback(
    frame: Any, dsn: str, sql: Sql
) -> None:
    too_long = frame.withColumn("dedup_key", F.repeat(F.lit("k"), 401))
    for rows, options, says in (
        (frame, {"queue": "nix"}, 'writer: rowlease.errors.InvalidRequest: queue "nix" does not'),
        (too_long, {}, "rowlease.errors.InvalidRequest: a name or key is too long"),
    ):
        with pytest.raises(PySparkException) as raised:
            write(rows, dsn, **options)
        assert says in str(raised.value)
        assert "Traceback" not in str(raised.value)
    assert sql("select count(*) from rowlease.requests") == [(0,)]


def test_a_database_that_goes_away_in_mid_load_leaves_a_load_that_can_come_again(
    frame: Any, dsn: str, sql: Sql
) -> None:
    sql(GONE)
    with pytest.raises(PySparkException, match="StoreUnavailable"):
        write(frame, dsn, load_id="x")
    assert sql("select count(*) from rowlease.requests") == [(0,)]
    sql("drop function rowlease.gone cascade")
    write(frame, dsn, load_id="x")
    assert sql("select count(*), count(distinct payload::text) from rowlease.requests") == [
        (1000, 1000)
    ]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("payload string, colour int", {}, "no column 'colour'; they have payload, kind, priority"),
        ("payload string, priority string", {}, "'priority' has the type string; cast it to byte"),
        ("payload string, due_time date", {}, "'due_time' has the type date; cast it to timestamp"),
        ("priority int", {}, "the frame has no column 'payload'"),
        ("payload string", {"kind": ""}, "no kind: add .option"),
        ("payload string", {"queue": ""}, "the option queue is missing"),
        (
            "payload string",
            {"que": "x"},
            "no option 'que'; the options are dsn, kind, load_id, queue",
        ),
        ("payload string", {"load_id": "x" * 101}, "load_id must have 1 to 100 characters"),
        ("payload string", {"load_id": "x "}, "load_id 'x ' ends in a blank; leave the blank out"),
        ("payload string", {"dsn": "mssql://a:b@c/d"}, r"mssql://a:\*\*\*@c/d is SQL Server"),
        (
            "payload string",
            {"dsn": "postgresql://a:b@c/d?e=f"},
            "has the option e, which libpq does not know",
        ),
    ],
)
def test_a_wrong_option_or_column_is_named_before_any_job(
    spark: Any, columns: str, options: dict[str, str], says: str
) -> None:
    schema = spark.createDataFrame([], columns).schema
    given = {"dsn": "postgresql://127.0.0.1:1/x", "queue": "default", "kind": "k", **options}
    with pytest.raises((ConfigError, InvalidRequest), match=says):
        RowleaseSource(given).writer(schema, overwrite=False)


def test_overwriting_is_refused(frame: Any, dsn: str) -> None:
    with pytest.raises(PySparkException, match="requests can only be added"):
        frame.write.format("rowlease").options(dsn=dsn, queue="default", kind="k").mode(
            "overwrite"
        ).save()


def test_reading_is_refused_with_what_to_do(spark: Any, dsn: str) -> None:
    says = r"read with rowlease\.spark\.read_requests"
    with pytest.raises(PySparkException, match=says) as raised:
        spark.read.format("rowlease").options(dsn=dsn).load()
    assert "Traceback" not in str(raised.value)
    with pytest.raises(PySparkException, match=says):
        spark.sql("create table requests using rowlease")
    with pytest.raises(ConfigError, match=says):
        RowleaseSource({}).reader(spark.range(0).schema)


def test_a_new_session_finds_the_format_unregistered_and_a_thread_registers_it(
    spark: Any, dsn: str, sql: Sql
) -> None:
    def enqueued() -> None:
        session = spark.newSession()
        register(session)
        write(session.sql("select '{}' as payload"), dsn)

    write(spark.newSession().sql("select '{}' as payload"), dsn)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(enqueued).result()
    assert sql("select count(*) from rowlease.requests") == [(2,)]


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_headers_travel_with_their_rows(
    keyed: bool, spark: Any, frame: Any, dsn: str, sql: Sql
) -> None:
    columns = ["'{}' as payload", """case when id = 1 then '{"tenant":"ac,me"}' end as headers"""]
    keys = ["string(id) as dedup_key"] if keyed else []
    write(spark.range(0, 3, 1, 1).selectExpr(*columns, *keys), dsn, load_id="x")
    found = sql("select headers::text from rowlease.requests order by request_id")
    assert found == [(None,), ('{"tenant":"ac,me"}',), (None,)]
