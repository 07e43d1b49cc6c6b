"""Enqueues the micro-batches of a stream, each once, even if Spark replays a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowlease.errors import InvalidRequest
from rowlease.spark.columns import RequestColumns, staging_columns
from rowlease.spark.source import MAX_STREAM, register
from rowlease.spark.source_writer import QUERY


def batch_sink(
    dsn: str,
    *,
    stream: str,
    queue: str,
    kind: Any,
    priority: Any = None,
    payload: Any = None,
    dedup_key: Any = None,
    group_key: Any = None,
    due_time: Any = None,
    headers: Any = None,
) -> Callable[[Any, int], None]:
    """Make a sink: `frame.writeStream.foreachBatch(batch_sink(dsn, ...)).start()`.

    The load id of a batch is the stream's name, `/` and the number of the batch. So a batch that is
    replayed after a crash changes nothing. With a new checkpoint, Spark numbers the batches from 0
    again. Such a batch is refused if the stream has enqueued one of this number before. In that
    case give the stream another name. PostgreSQL only.

    Args:
        dsn, queue, kind, priority, payload, dedup_key, group_key, due_time, headers: the same
            as for `enqueue`.
        stream: the unique name of the stream, 1 to 80 characters.

    Returns:
        A function that takes a batch and its number. It raises InvalidRequest for wrong columns,
        and Spark's exceptions for errors of `format("rowlease")`.

    Raises:
        InvalidRequest: the stream's name is empty or too long.
    """
    if not 1 <= len(stream) <= MAX_STREAM:
        raise InvalidRequest(f"stream must have 1 to {MAX_STREAM} characters")

    given = RequestColumns(
        kind=kind,
        priority=priority,
        payload=payload,
        dedup_key=dedup_key,
        group_key=group_key,
        due_time=due_time,
        headers=headers,
    )

    def sink(batch: Any, number: int) -> None:
        columns = staging_columns(batch, given)
        options = {"dsn": dsn, "queue": queue, "load_id": f"{stream}/{number}"}
        if isinstance(kind, str):
            options["kind"] = kind
        # Spark Connect hides the query's id.
        context = getattr(batch.sparkSession, "_sc", None)
        if query := context and context.getLocalProperty(QUERY):
            options["query_id"] = query
        register(batch.sparkSession)
        batch.select(*columns).write.format("rowlease").options(**options).mode("append").save()

    return sink
