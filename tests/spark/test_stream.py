"""A stream's batches are enqueued once each, though Spark replays one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.spark import batch_sink, register
from rowlease.spark.source import RowleaseSource

Sql = Callable[..., list[tuple[Any, ...]]]


def test_a_batch_that_is_replayed_after_a_crash_is_enqueued_once(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    sink = batch_sink(dsn, stream="numbers", queue="default", kind="k", dedup_key="n")

    def run(each: Callable[[Any, int], None]) -> None:
        stream = (
            spark.readStream.schema("n bigint").json(source.as_uri()).writeStream.foreachBatch(each)
        )
        stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        stream.start().awaitTermination()

    def dies_after_its_commit(batch: Any, number: int) -> None:
        sink(batch, number)
        raise RuntimeError("died")

    source.mkdir()
    (source / "a.json").write_text("".join(f'{{"n": {n}}}\n' for n in range(100)))
    with pytest.raises(Exception, match="died"):
        run(dies_after_its_commit)
    sql("delete from rowlease.queue where dedup_key = '7'")  # as if it had been done by now
    sql("delete from rowlease.load")  # as `maintain` does after the retention
    run(sink)
    (source / "b.json").write_text('{"n": 100}\n')
    run(sink)
    assert sql("select load_id, num_enqueued from rowlease.load order by 1") == [
        ("numbers/1", 1),
    ]
    assert sql("select count(*), count(distinct dedup_key) from rowlease.queue") == [(100, 100)]


def test_the_formats_own_stream_writer_enqueues_each_batch_once(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    register(spark)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()

    def run() -> None:
        numbers = spark.readStream.schema("n bigint").json(source.as_uri())
        rows = numbers.selectExpr("to_json(struct(n)) as payload", "cast(n as string) as dedup_key")
        options = {"dsn": dsn, "queue": "default", "kind": "k", "stream": "numbers"}
        # Two tasks for a batch: each of them begins its load.
        stream = rows.repartition(2).writeStream.format("rowlease").options(**options)
        stream = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        stream.start().awaitTermination()

    (source / "a.json").write_text("".join(f'{{"n": {n}}}\n' for n in range(100)))
    run()
    # As if the driver had died before Spark noted that the batch was done, and a worker had not.
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink()
    sql("delete from rowlease.queue where dedup_key = '7'")
    sql("delete from rowlease.load")
    run()
    (source / "b.json").write_text('{"n": 100}\n')
    run()
    assert sql("select load_id, num_enqueued, num_rows from rowlease.load order by 1") == [
        ("numbers/1", 1, 1),
    ]
    assert sql("select count(*), count(distinct dedup_key) from rowlease.queue") == [(100, 100)]
    assert sql("select count(*) from rowlease.lane") == [(0,)]


@pytest.mark.parametrize("way", ["format", "batch_sink"])
def test_a_stream_with_a_new_checkpoint_is_refused(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path, way: str
) -> None:
    """Its rows are enqueued already, and its batches have the numbers of others."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.json").write_text('{"payload": "{}", "dedup_key": "1"}\n')

    def run(checkpoint: str) -> None:
        rows = spark.readStream.schema("payload string, dedup_key string").json(source.as_uri())
        writer = rows.writeStream
        given = {"dsn": dsn, "queue": "default", "kind": "k", "stream": "numbers"}
        if way == "format":
            writer = writer.format("rowlease").options(**given)
        else:
            writer = writer.foreachBatch(batch_sink(**given, dedup_key="dedup_key"))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    run("one")
    sql("delete from rowlease.load")  # as `maintain` does after the retention
    sql("delete from rowlease.queue")  # and the request is done
    with pytest.raises(Exception, match="give the stream another name, or forget"):
        run("two")
    assert sql("select count(*) from rowlease.requests") == [(0,)]


@pytest.mark.parametrize(
    ("options", "overwrite", "says"),
    [
        ({"stream": ""}, False, "the option stream must be a unique name of 1 to 80 characters"),
        (
            {"stream": "x" * 81},
            False,
            "the option stream must be a unique name of 1 to 80 characters",
        ),
        (
            {"load_id": "x"},
            False,
            "no option 'load_id'; the options are checkpointlocation, dsn, kind",
        ),
        ({"queue": ""}, False, "the option queue is missing"),
        ({}, True, "requests can only be added"),
    ],
)
def test_a_streams_wrong_option_is_named(
    spark: Any, options: dict[str, str], overwrite: bool, says: str
) -> None:
    schema = spark.createDataFrame([], "payload string").schema
    given = {"dsn": "postgresql://127.0.0.1:1/x", "queue": "q", "kind": "k", "stream": "s"}
    with pytest.raises(ConfigError, match=says):
        RowleaseSource(given | options).streamWriter(schema, overwrite)


def test_a_stream_needs_a_name(dsn: str) -> None:
    with pytest.raises(InvalidRequest, match="stream must have 1 to 80 characters"):
        batch_sink(dsn, stream="", queue="default", kind="k")
