"""Requests come back as a DataFrame: the right ones, in parallel, with any characters in names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import functions as F

from rowlease.errors import ConfigError, InvalidRequest, StoreUnavailable
from rowlease.model import NewRequest
from rowlease.spark import enqueue, read_requests
from rowlease.spark.jdbc import literal
from rowlease.spark.jdbc_reader import id_ranges
from rowlease.store import Store, open_store
from tests.conftest import in_database, scratch_database

Sql = Callable[..., list[tuple[Any, ...]]]
#: Names that would end a literal, start a comment, be a parameter, or confuse a parser.
HOSTILE = [
    "o'brien",
    "'; drop table rowlease.queue; --",
    "' or '1'='1",
    "\\",
    "\\'; select 1; --",
    "$$; $1 ?; {x} :name %s /* */ --",
    "E'\\047'",
    '"quoted"',
    "line\nbreak\ttab",
    "żółć \U0001f6eb \uff07",
]


@pytest.fixture(scope="module")
def filled(spark: Any, server_dsn: str, template: str) -> Iterator[str]:
    """Two queues, two loads; of one queue some requests are complete. Tests only read them."""
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        with closing(open_store(dsn)) as store:
            for queue in ("a", "b"):
                store.configure_queue(queue)
                named = f"load {queue}"
                enqueue(spark.range(100), dsn, queue=queue, kind="k", load_id=named, store=store)
            claim = store.dequeue("w", ["a"], 30)
            store.complete(claim.requests, ['{"done": true}'] * 30)
        yield dsn


def test_filters_choose_queue_load_and_status(spark: Any, filled: str) -> None:
    assert read_requests(spark, filled).count() == 200
    assert read_requests(spark, filled, queue="a").count() == 100
    assert read_requests(spark, filled, load_id="load b").count() == 100
    assert read_requests(spark, filled, queue="a", load_id="load b").count() == 0
    assert read_requests(spark, filled, status="Complete").count() == 30
    assert read_requests(spark, filled, queue="a", status=["Pending", "Complete"]).count() == 100
    assert read_requests(spark, filled, status=["Failed"]).count() == 0


def test_a_status_may_be_in_lower_case_as_in_a_filter(spark: Any, filled: str) -> None:
    frame = read_requests(spark, filled, status=["complete"])
    assert {row.status for row in frame.select("status").collect()} == {"Complete"}


def test_results_and_payloads_come_as_json_text(spark: Any, filled: str) -> None:
    columns = ("request_id", "payload", "result", "locked_time", "due_time")
    frame = read_requests(spark, filled, status="Complete", columns=columns)
    assert dict(frame.dtypes) == {
        "request_id": "bigint",
        "payload": "string",
        "result": "string",
        "locked_time": "timestamp",
        "due_time": "timestamp",
    }
    assert frame.columns == list(columns)
    assert {row.result for row in frame.collect()} == {'{"done": true}'}
    assert frame.where("locked_time >= due_time").count() == 30


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_partitions_cover_every_request_once(spark: Any, filled: str, partitions: int) -> None:
    frame = read_requests(spark, filled, queue="b", partitions=partitions)
    assert frame.rdd.getNumPartitions() == partitions
    ids = [row.request_id for row in frame.select("request_id").collect()]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == 100
    sizes = frame.groupBy(F.spark_partition_id()).count().collect()
    assert max(row["count"] for row in sizes) <= 100 // partitions + 2


def test_no_job_runs_before_the_frame_is_used(spark: Any, filled: str) -> None:
    context = spark.sparkContext
    context.setJobGroup("read", "read")
    try:
        read_requests(spark, filled)
        assert list(context.statusTracker().getJobIdsForGroup("read")) == []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_the_server_finds_each_range_in_its_index(sql: Sql) -> None:
    sql("set enable_seqscan = off")
    for each in id_ranges(1, 90, 3) or []:
        plan = str(sql(f"explain select from rowlease.queue where {each}"))
        assert "Index Cond" in plan, (each, plan)


def test_a_hostile_name_is_only_a_name(spark: Any, dsn: str, store: Store) -> None:
    store.enqueue_many("default", [NewRequest(kind="k")])
    for name in HOSTILE:
        store.configure_queue(name)
        store.enqueue_many(name, [NewRequest(kind="k")])
    for name in HOSTILE:
        (row,) = read_requests(spark, dsn, queue=name).select("queue_name").collect()
        assert row.queue_name == name
        assert read_requests(spark, dsn, load_id=name).count() == 0, name


def test_a_literal_means_its_text_whatever_the_servers_settings(sql: Sql) -> None:
    for strict in ("on", "off"):
        sql(f"set standard_conforming_strings = {strict}")
        for name in HOSTILE:
            assert sql(f"select {literal(name)}".replace("%", "%%")) == [(name,)]


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_a_text_the_database_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot store"):
        literal(text)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"columns": ["nope"]}, InvalidRequest, "requests have no column 'nope'; they have"),
        (
            {"status": "Done"},
            InvalidRequest,
            "status is 'Done'; it must be one of Scheduled, ",
        ),
        ({"status": []}, InvalidRequest, "status is empty"),
        ({"partitions": 0}, ConfigError, "partitions must be 1 or more"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, Any], error: type[Exception], says: str, spark: Any, dsn: str
) -> None:
    with pytest.raises(error, match=says):
        read_requests(spark, dsn, **arguments)


def test_a_database_that_is_not_there_is_one_sentence(spark: Any) -> None:
    with pytest.raises(StoreUnavailable, match="check the DSN") as raised:
        read_requests(spark, "postgresql://me:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(raised.value)
