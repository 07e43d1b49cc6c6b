"""Enqueues the micro-batches of a stream, each once, even if Spark replays a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from rowlease.errors import InvalidRequest
from rowlease.spark.columns import ColumnKeywords, RequestColumns, request_columns
from rowlease.spark.source import MAX_STREAM, register
from rowlease.spark.source_writer import QUERY


def batch_sink(
    dsn: str, *, stream: str, queue: str, **columns: Unpack[ColumnKeywords]
) -> Callable[[Any, int], None]:
    """Make a sink: `frame.writeStream.foreachBatch(batch_sink(dsn, ...)).start()`.

    The load id of a batch is the stream's name, `/` and the number of the batch. A batch that is
    replayed changes nothing, however late. A new checkpoint makes another streaming query, whose
    batches are refused: its rows may be enqueued already. Then give the stream another name, or use
    `rowlease loads forget-stream`. PostgreSQL only.

    Args:
        dsn: the same as for `enqueue`.
        queue: the same as for `enqueue`.
        columns: kind, priority, payload, dedup_key, group_key, due_time and headers, the same as
            for `enqueue`.
        stream: the unique name of the stream, 1 to 80 characters.

    Returns:
        A function that takes a batch and its number. It raises InvalidRequest for wrong columns,
        and Spark's exceptions for errors of `format("rowlease")`.

    Raises:
        InvalidRequest: the stream's name is empty or too long.
    """
    if not 1 <= len(stream) <= MAX_STREAM:
        raise InvalidRequest(f"stream must have 1 to {MAX_STREAM} characters")

    given = RequestColumns(**columns)

    def sink(batch: Any, number: int) -> None:
        options = {"dsn": dsn, "queue": queue, "stream": stream, "batch_number": str(number)}
        if isinstance(given.kind, str):
            options["kind"] = given.kind
        # Spark Connect hides the query's id.
        context = getattr(batch.sparkSession, "_sc", None)
        if query := context and context.getLocalProperty(QUERY):
            options["query_id"] = query
        register(batch.sparkSession)
        rows = batch.select(*request_columns(batch, given))
        rows.write.format("rowlease").options(**options).mode("append").save()

    return sink
