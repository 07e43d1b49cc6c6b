"""A DataFrame becomes requests on SQL Server: in bulk, each row once, all or none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from rowlease.errors import AccessDenied, ConfigError, InvalidRequest, StoreUnavailable
from rowlease.model import Begun, Outcome, Promoted
from rowlease.spark import enqueue, read_requests
from rowlease.spark.load import stage
from rowlease.store.sqlserver.jdbc import BULK_COPY, SqlServerJdbc
from tests.contract import sqlserver
from tests.contract.sqlserver import MssqlSession

WHY_NOT = sqlserver.missing()
if WHY_NOT:
    pytest.skip(WHY_NOT, allow_module_level=True)

pytestmark = pytest.mark.timeout(600)  # some engines compile slowly


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with sqlserver.server() as server, sqlserver.database(server) as dsn:
        yield dsn


@pytest.fixture
def dsn(database: str) -> str:
    sqlserver.emptied(database)
    return database


@pytest.fixture(autouse=True)
def batches(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Babelfish copies rows into tables, but not into views; so it gets ordinary batches."""
    with closing(sqlserver.connect(database)) as connection:
        if not sqlserver.is_babelfish(connection):
            return

    with_bulk_copy = SqlServerJdbc.jdbc_options

    def without_bulk_copy(self: SqlServerJdbc) -> dict[str, str]:
        options = with_bulk_copy(self)
        return options | {"url": options["url"].replace(f"{BULK_COPY}=true", f"{BULK_COPY}=false")}

    monkeypatch.setattr(SqlServerJdbc, "jdbc_options", without_bulk_copy)


@pytest.fixture
def store(dsn: str) -> Iterator[MssqlSession]:
    with closing(MssqlSession(dsn)) as session:
        yield session


def test_rows_become_requests_with_all_that_they_say(
    spark: Any, dsn: str, store: MssqlSession
) -> None:
    store.configure_queue("flights", max_priority=5)
    frame = spark.sql(
        "select id, id * 4 as urgency, if(id = 1, null, 'żółć \U0001f6eb') as name,"
        " timestamp'2030-10-27 00:30:00.123456' + make_interval(0, 0, 0, 0, id) as at from range(3)"
    )
    arguments = {
        "queue": "flights", "kind": "flight", "priority": "urgency", "dedup_key": "id",
        "group_key": F.concat(F.lit("group "), "id"), "due_time": "at", "load_id": "first",
        "store": store,
    }  # fmt: skip
    assert enqueue(frame, dsn, **arguments) == Promoted(Outcome.OK, 3, 3, 0, 1)
    assert enqueue(frame, dsn, **arguments) == Promoted(Outcome.REPEAT, 3, 3, 0, 1)
    rows = store.rows(
        "queue", "request_id", "kind", "priority", "dedup_key", "group_key", "due_time", "load_id",
        "status", "payload",
    )  # fmt: skip
    assert [row[2] for row in rows] == [0, 4, 5]
    assert [row[5] for row in rows] == [
        datetime(2030, 10, 27, hour, 30, 0, 123456, tzinfo=UTC) for hour in range(3)
    ]
    assert rows[1][3:5] + rows[1][6:8] == ("1", "group 1", "first", "Scheduled")
    printed = [row[8] if isinstance(row[8], dict) else json.loads(row[8]) for row in rows]
    assert [payload["name"] for payload in printed] == ["żółć \U0001f6eb", None, "żółć \U0001f6eb"]


def test_a_session_in_another_time_zone_means_the_same_times(
    spark: Any, dsn: str, store: MssqlSession
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Warsaw")
    try:
        # On that night a clock there shows 02:30 twice.
        frame = spark.sql("select timestamp_seconds(1919291400 + 3600 * id) as at from range(2)")
        enqueue(frame, dsn, queue="default", kind="k", due_time="at", store=store)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [due.timestamp() for (due,) in store.rows("queue", "due_time")] == [
        1919291400,
        1919295000,
    ]


def test_many_rows_of_several_partitions_are_one_load(
    spark: Any, dsn: str, store: MssqlSession
) -> None:
    frame = spark.range(0, 20_000, 1, 4)
    done = enqueue(frame, dsn, queue="default", kind="k", store=store)
    assert done == Promoted(Outcome.OK, 20_000, 20_000, 0)
    assert store.execute("select count(distinct Payload) from rowlease.Lane") == [(20_000,)]
    first = store.claim(limit=3)
    assert [json.loads(request.payload) for request in first] == [{"id": n} for n in range(3)]


def test_a_run_that_died_before_its_promotion_is_finished_by_the_next(
    spark: Any, dsn: str, store: MssqlSession
) -> None:
    frame = spark.range(1000)
    run = store.begin_load("dies", "default", "one")
    assert isinstance(run, Begun)
    stage(frame, dsn, load_id="dies", run=run, kind="k")
    assert store.rows("requests", "request_id") == []
    done = enqueue(frame, dsn, queue="default", kind="k", load_id="dies", store=store)
    assert done == Promoted(Outcome.OK, 1000, 1000, 0)


def test_equal_keys_are_one_request(spark: Any, dsn: str, store: MssqlSession) -> None:
    frame = spark.createDataFrame([(7,), (7,), (8,)], "n int")
    done = enqueue(frame, dsn, queue="default", kind="k", dedup_key="n", store=store)
    assert (done.num_enqueued, done.num_duplicates) == (2, 1)


@pytest.mark.parametrize(
    ("payload", "arguments", "says"),
    [
        ("no json", {}, "payload must be a JSON object of arguments by name"),
        ("[1]", {"dedup_key": "json"}, "payload must be a JSON object of arguments by name"),
        ('{"a": 1}', {"queue": "nix"}, 'queue "nix" does not exist'),
        ('{"a": 1}', {"priority": "minus"}, "priority is -4"),
    ],
)
def test_nothing_enters_the_queue_unless_the_whole_load_does(
    payload: str,
    arguments: dict[str, Any],
    says: str,
    spark: Any,
    dsn: str,
    store: MssqlSession,
) -> None:
    rows = [("{}", 0)] * 50 + [(payload, -4)]
    frame = spark.createDataFrame(rows, "json string, minus int")
    given = {"queue": "default", "kind": "k", "payload": "json", "store": store, **arguments}
    with pytest.raises(InvalidRequest, match=says):
        enqueue(frame, dsn, **given)
    assert store.rows("requests", "request_id") == []


def test_a_wrong_password_is_one_sentence_without_it(spark: Any, dsn: str) -> None:
    wrong = re.sub(r":[^:@/]+@", ":hunter2@", dsn)
    with pytest.raises((StoreUnavailable, AccessDenied)) as raised:
        enqueue(spark.range(3), wrong, queue="default", kind="k")
    assert "Login failed" in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_reading_back_says_that_it_is_not_there(spark: Any, dsn: str) -> None:
    with pytest.raises(ConfigError, match="read back only from PostgreSQL"):
        read_requests(spark, dsn)
