"""Bulk enqueue: each row of a DataFrame becomes one request, all of them or none.

Spark may try a task again or run it twice, so rows that are written are not requests yet. Of
several tries of a task only the first one that commits its rows counts. The routine `promote`
compares the number of rows with the number that Spark counted, and turns the rows into requests in
one transaction.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, Unpack

from rowlease.errors import (
    InvalidRequest,
    LoadDiffers,
    LoadLost,
    RowleaseError,
    StoreConflict,
)
from rowlease.model import TEXT, Begun, Promoted, check_type
from rowlease.spark.columns import (
    ColumnKeywords,
    RequestColumns,
    described,
    request_columns,
)
from rowlease.spark.copy_writer import Way, copies, write_by_copy
from rowlease.spark.jdbc import connection_options, database_errors, is_connect
from rowlease.spark.jdbc_writer import write_by_jdbc
from rowlease.spark.promotion import NOT_STAGED, Load, Staged, end_run, heard, promoted
from rowlease.store import Store, open_store

logger = logging.getLogger("rowlease")

#: The maximum length of a load id, in characters. The column has the same limit.
MAX_LOAD_ID = 100
#: The local property with the description of a thread's jobs.
DESCRIPTION = "spark.job.description"
#: The maximum number of times that a load is written if two tries of a task give other numbers of
#: rows, or if another transaction is in the way.
MAX_WRITES = 3


def enqueue(
    df: Any,
    dsn: str,
    *,
    queue: str,
    kind: Any,
    priority: Any = None,
    payload: Any = None,
    dedup_key: Any = None,
    group_key: Any = None,
    due_time: Any = None,
    headers: Any = None,
    load_id: str | None = None,
    writers: int | None = None,
    by: Way = None,
    store: Store | None = None,
) -> Promoted:
    """Turn each row of a DataFrame into one request of a queue.

    Either all rows become visible to workers in one step, or none does. If the load was already
    promoted, another call with the same `load_id` enqueues nothing, runs no job, and returns
    `repeat` with the first call's counts. If an earlier run has not promoted the load, this run
    takes the load over: it drops the rows of the earlier run, which then gets LoadLost.

    Columns are names or Column expressions. During this call, the table `rowlease.load` has the
    number of staged rows, and the logger `rowlease` logs this number at level INFO.

    Args:
        df: a batch DataFrame; it need not be deterministic. If a Spark task is tried again and
            then gives another number of rows, the whole load is written again.
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        queue: an existing queue.
        kind: the name of the task for all rows (a str), or a Column with a name for each row.
        priority: an int of 0 or more for all rows, or a column of integers; bigger is more urgent,
            null is 0; clamped to the queue's maximum.
        payload: a column of JSON text, or of a struct or map, which becomes JSON; at most 1 MiB. A
            null in the column becomes `{}`. Without this argument, the payload is the whole row,
            with its null fields.
        dedup_key: a column. If a live request of the queue or an earlier row of this frame has the
            same key, the row is left out and counted as a duplicate. Null means no key.
        group_key: a column; requests of a group run one at a time.
        due_time: a column of timestamps; null and past ones mean now.
        headers: a dict of strings for all rows, or a column: JSON text, or a map or struct of
            strings. At most 8 KiB of JSON.
        load_id: 1 to 100 characters; None means a new random id.
        writers: the maximum number of Spark tasks that write at once, 1 or more; each has a
            connection. With a maximum, the frame is computed before it is written, by one task for
            each partition, and kept until it is written. None means no limit.
        by: how the rows are written: "copy" by Python on the executors, which need rowlease there,
            and PostgreSQL; or "jdbc". None means "copy" where the executors can.
        store: a store on the same database; None opens one for this call.

    Returns:
        The outcome and the numbers of rows, of new requests, of duplicates and of priorities that
        were clamped.

    Raises:
        InvalidRequest: an argument, a column or a row cannot be accepted, or the load id was used
            for another queue or for other columns. Nothing was enqueued; arguments, columns and
            the queue are checked before any Spark job runs.
        QueueFull: the load does not fit into the queue's capacity. Nothing was enqueued.
        LoadLost: a later run with this load id has taken the load over. Nothing of this run was
            enqueued.
        ConfigError: the DSN cannot be read, the session has no JDBC driver and needs it, or rows
            cannot be written in the way that `by` names.
        StoreUnavailable, AccessDenied, SchemaMismatch, StoreError: the database refused a call or
            cannot be reached. Nothing was enqueued, with one exception: if the answer to the
            promotion was lost three times, the load may be enqueued. Call again with the same load
            id; this is safe in every case.
    """
    if not isinstance(queue, str) or not queue:
        raise InvalidRequest("queue must be the name of a queue")
    if writers is not None and (
        not isinstance(writers, int) or isinstance(writers, bool) or writers < 1
    ):
        raise InvalidRequest(f"writers must be an integer of 1 or more, not {writers!r}")
    if by not in (None, "copy", "jdbc"):
        raise InvalidRequest(f'by must be "copy", "jdbc" or None, not {by!r}')
    load_id = named_load(load_id)
    given = RequestColumns(
        kind=kind,
        priority=priority,
        payload=payload,
        dedup_key=dedup_key,
        group_key=group_key,
        due_time=due_time,
        headers=headers,
    )
    columns = checked_columns(df, given)
    connection_options(dsn)  # checks the DSN before any job
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(closing(open_store(dsn, application_name="rowlease spark")))
        opened, made_of = store, described(df, payload, columns, kind)

        def staged_and_promoted() -> Promoted:
            run_by = new_run(df.sparkSession)
            begun = heard(lambda: opened.begin_load(load_id, queue, run_by, made_of))
            if isinstance(begun, Promoted):
                return begun
            try:
                load = Load(dsn, load_id, begun, kind if isinstance(kind, str) else None)
                with jobs_described(df.sparkSession, f"rowlease: load {load_id} into {queue}"):
                    waiting = write(df, columns, load, writers, by, opened)
                logger.info(
                    "load %s: %s rows are staged and will be promoted", load_id, waiting.num_rows
                )
                return promoted(opened, waiting)
            except LoadLost:
                # If another run has taken the load over, this raises a LoadLost that names it.
                opened.report_load(load_id, begun.run_number, 0)
                raise
            except BaseException:
                # Tasks of a cancelled job may still write: what they commit must not count.
                with suppress(RowleaseError):
                    end_run(opened, load_id, begun.run_number)
                raise

        for _ in range(MAX_WRITES - 1):
            with suppress(StoreConflict, LoadDiffers):
                return staged_and_promoted()
        return staged_and_promoted()


def stage(
    df: Any,
    dsn: str,
    *,
    load_id: str,
    run: Begun,
    by: Way = None,
    **columns: Unpack[ColumnKeywords],
) -> Staged:
    """Stage the rows and count them: the second step of `enqueue`.

    If the load is not promoted, `maintain` drops the rows after a day.

    Args:
        run: the return value of `Store.begin_load`.
        columns: the same as for `enqueue`.

    Raises:
        The same errors as `enqueue`.
    """
    given = RequestColumns(**columns)
    made = checked_columns(df, given)
    connection_options(dsn)
    load = Load(dsn, load_id, run, given.kind if isinstance(given.kind, str) else None)
    return write(df, made, load, None, by, None)


def named_load(load_id: str | None) -> str:
    """The load id, or a new one.

    Raises:
        InvalidRequest: the load id is no text, empty or too long, or ends in a blank.
    """
    if load_id is None:
        return uuid.uuid4().hex
    check_type("load_id", load_id, TEXT)
    if not 1 <= len(load_id) <= MAX_LOAD_ID:
        raise InvalidRequest(f"load_id must have 1 to {MAX_LOAD_ID} characters")
    if load_id.endswith(" "):
        raise InvalidRequest(f"load_id {load_id!r} ends in a blank; leave the blank out")
    return load_id


def checked_columns(df: Any, given: RequestColumns) -> list[Any]:
    """The `request_columns` of a frame, which must be one of Spark, and not a stream."""
    if not hasattr(df, "isStreaming"):
        raise InvalidRequest(
            f"df is a {type(df).__module__}.{type(df).__qualname__}; it must be a DataFrame of "
            "Spark, for example spark.createDataFrame(df)"
        )
    if df.isStreaming:
        raise InvalidRequest("the frame is a stream; enqueue each of its batches (foreachBatch)")
    return request_columns(df, given)


def new_run(spark: Any = None) -> str:
    """A unique name for a run, with its host and process, and with the application of a session."""
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    if spark is None or is_connect(spark):
        return name
    return f"{spark.sparkContext.applicationId}@{name}"


@contextmanager
def jobs_described(spark: Any, text: str) -> Iterator[None]:
    """Give the jobs of this block a description in Spark's UI, unless the caller gave them one."""
    context = None if is_connect(spark) else spark.sparkContext
    if context is None or context.getLocalProperty(DESCRIPTION):
        yield
        return
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, None)


def write(
    df: Any, columns: list[Any], load: Load, writers: int | None, by: Way, store: Store | None
) -> Staged:
    """Write the rows of a load, with these columns. Report its progress if there is a store."""
    rows = df.select(*columns)
    kept = rows.persist() if writers else rows
    try:
        if writers:
            with database_errors(load.dsn, NOT_STAGED):
                kept.count()  # computes and keeps the rows, with one task for each partition
            rows = kept.coalesce(writers)
        writes = write_by_copy if copies(df.sparkSession, load.dsn, by) else write_by_jdbc
        return writes(rows, load, store)
    finally:
        kept.unpersist()
