"""Bulk enqueue: a DataFrame becomes requests, all of them or none, each row once.

Spark retries and speculates tasks, so rows are not written into the queue itself. They are
numbered and written into the table `staging`. Then the routine `promote` counts them, drops copies,
and moves them into the queue in one transaction.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from typing import Any, NamedTuple, TypeVar

from rowlease.errors import InvalidRequest, StoreConflict, StoreUnavailable
from rowlease.model import Promoted
from rowlease.spark.columns import RequestColumns, described, staging_columns
from rowlease.spark.jdbc import connection_options, database_errors, staged, writing_options
from rowlease.spark.progress import reported
from rowlease.store import Producing, open_store

logger = logging.getLogger("rowlease")

#: The maximum length of a load id, in characters. The column has the same limit.
MAX_LOAD_ID = 100
#: Rows of a batch. The JDBC driver rewrites a batch to one INSERT, which is fast.
BATCH_SIZE = 10_000
#: A row's id consists of its partition, the try that wrote the row, and its number (17, 16 and 30
#: bits). So requests have the order of the frame. Partition and try together are the row's part.
TRY_BITS, ROW_BITS = 16, 30
#: The maximum number of partitions of a load.
MAX_PARTITIONS = 1 << 63 - TRY_BITS - ROW_BITS
#: How often rows are staged if two tries of a task keep computing different rows.
STAGINGS = 3
#: How often a promotion is tried at most, if rows are written meanwhile.
PROMOTIONS = 3
#: Seconds between tries of a call without an answer.
PAUSES = (0.5, 2.0)

T = TypeVar("T")


class Staged(NamedTuple):
    """A load that is staged and not promoted.

    Attributes:
        kind: for rows without a kind.
        parts: those that count; others are of tries that Spark gave up.
    """

    load_id: str
    run_number: int
    num_rows: int
    kind: str | None
    parts: Sequence[int]


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
    load_id: str | None = None,
    store: Producing | None = None,
) -> Promoted:
    """Turn each row of a DataFrame into one request of a queue.

    Either all rows become visible to workers in one step, or none does. If the load was already
    promoted, another call with the same `load_id` enqueues nothing, runs no job, and returns
    `repeat` with the first call's counts. If an earlier run has not promoted the load, this run
    takes the load over: it drops the rows of the earlier run, which then gets LoadLost.

    Columns are names or Column expressions. During this call, the table `rowlease.load` has the
    number of staged rows, and the logger `rowlease` logs this number at level INFO.

    Args:
        df: a batch DataFrame. It is computed once and kept (memory, then disk) until the rows are
            written, so it need not be deterministic. If an executor is lost, or a task is
            speculated, parts may be computed twice; if that gives other rows, or another order,
            all rows are staged again.
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        queue: an existing queue.
        kind: the task's name, for all rows if it is a str; a Column of strings gives each its own.
        priority: an int of 0 or more for all rows, or a column of integers; bigger is more urgent,
            null is 0; clamped to the queue's maximum.
        payload: a column of JSON text, or of a struct or map, which becomes JSON; at most 1 MiB.
            None takes the whole row, nulls included. Null is `{}`.
        dedup_key: a column; a row whose key a live request of the queue or an earlier row of this
            frame has, is counted as a duplicate and left out. Null is no key.
        group_key: a column; requests of a group run one at a time.
        due_time: a column of timestamps; null and past ones mean now.
        load_id: 1 to 100 characters; None makes one up.
        store: a store on the same database; None opens one for this call.

    Returns:
        The outcome and the numbers of rows, of new requests and of duplicates.

    Raises:
        InvalidRequest: an argument, a column or a row cannot be accepted, or the load id was used
            for another queue or for other columns. Nothing was enqueued; arguments, columns and
            the queue are checked before any Spark job runs.
        QueueFull: the load does not fit into the queue's capacity. Nothing was enqueued.
        LoadLost: a later run with this load id has taken the load over. Nothing of this run was
            enqueued.
        ConfigError: the DSN cannot be read, or the session has no JDBC driver.
        StoreUnavailable, AccessDenied, SchemaMismatch, StoreError: the database refused a call or
            cannot be reached. Nothing was enqueued, unless the answer to the promotion was lost
            three times: call again with the same load id.
    """
    if not isinstance(queue, str) or not queue:
        raise InvalidRequest("queue must be the name of a queue")
    load_id = named_load(load_id)
    given = RequestColumns(
        kind=kind,
        priority=priority,
        payload=payload,
        dedup_key=dedup_key,
        group_key=group_key,
        due_time=due_time,
    )
    columns = checked_columns(df, given)
    connection_options(dsn)  # checks the DSN before any job
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(closing(open_store(dsn, application_name="rowlease spark")))
        opened, made_of = store, described(df, payload, columns)

        def staged_and_promoted() -> Promoted:
            run_by = new_run()
            begun = heard(lambda: opened.begin_load(load_id, queue, run_by, made_of))
            if isinstance(begun, Promoted):
                return begun
            waiting = write(df, dsn, kind, columns, load_id, begun, opened)
            logger.info(
                "load %s: %s rows are staged and will be promoted", load_id, waiting.num_rows
            )
            return promoted(opened, waiting)

        for _ in range(STAGINGS - 1):
            with suppress(StoreConflict):
                return staged_and_promoted()
        return staged_and_promoted()


def promoted(store: Producing, load: Staged) -> Promoted:
    """Promote a staged load; repeated if no answer comes."""
    try:
        return _settled(store, load)
    except InvalidRequest:
        # There may be rows that do not count, of a task that was tried twice. To drop them every
        # time would cost more than it saves.
        if not _discarded(store, load):
            raise
        return _settled(store, load)


def _settled(store: Producing, load: Staged) -> Promoted:
    """Promote; repeated at once if a late task has committed rows meanwhile."""

    def promote() -> Promoted:
        return store.promote(load.load_id, load.run_number, load.num_rows, kind=load.kind)

    for _ in range(PROMOTIONS - 1):
        with suppress(StoreConflict):
            return heard(promote)
    return heard(promote)


def _discarded(store: Producing, load: Staged) -> bool:
    """Drop the rows that do not count; were there any, perhaps?"""
    with suppress(StoreUnavailable):
        return store.discard_staged(load.load_id, load.run_number, load.parts) > 0
    heard(lambda: store.discard_staged(load.load_id, load.run_number, load.parts))
    return True  # the count of the first call was lost


def heard(call: Callable[[], T]) -> T:
    """The answer of an idempotent call, which is repeated if no answer comes."""
    for pause in PAUSES:
        with suppress(StoreUnavailable):
            return call()
        time.sleep(pause)
    return call()


def stage(
    df: Any,
    dsn: str,
    *,
    load_id: str,
    run_number: int,
    kind: Any,
    priority: Any = None,
    payload: Any = None,
    dedup_key: Any = None,
    group_key: Any = None,
    due_time: Any = None,
) -> Staged:
    """Stage the rows and count them: the second step of `enqueue`.

    If the load is not promoted, `maintain` drops the rows after a day.

    Args:
        run_number: of this run, from `Store.begin_load`.

    Further args, raises: as `enqueue`.
    """
    given = RequestColumns(
        kind=kind,
        priority=priority,
        payload=payload,
        dedup_key=dedup_key,
        group_key=group_key,
        due_time=due_time,
    )
    columns = checked_columns(df, given)
    connection_options(dsn)
    return write(df, dsn, kind, columns, load_id, run_number, None)


def named_load(load_id: str | None) -> str:
    """The load id, or a new one.

    Raises:
        InvalidRequest: the load id is empty or too long.
    """
    load_id = uuid.uuid4().hex if load_id is None else load_id
    if not 1 <= len(load_id) <= MAX_LOAD_ID:
        raise InvalidRequest(f"load_id must have 1 to {MAX_LOAD_ID} characters")
    return load_id


def checked_columns(df: Any, given: RequestColumns) -> list[Any]:
    """The `staging_columns` of a frame, which must not be a stream."""
    if df.isStreaming:
        raise InvalidRequest("the frame is a stream; enqueue each of its batches (foreachBatch)")
    return staging_columns(df, given)


def new_run() -> str:
    """A unique name for a run, with its host and process."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def write(
    df: Any,
    dsn: str,
    kind: Any,
    columns: list[Any],
    load_id: str,
    run_number: int,
    store: Producing | None,
) -> Staged:
    """Write the columns of a load. Report its progress if there is a store."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    context = df.sparkSession.sparkContext
    # More connections than cores would only wait for each other. Rows are numbered within their
    # partitions and persisted, so that a retried task assigns the same numbers.
    tasks = context.defaultParallelism
    part = F.spark_partition_id().cast("bigint") * (1 << TRY_BITS)
    number = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    numbered = (
        df.coalesce(tasks)
        .select(
            F.lit(load_id).alias("load_id"),
            F.lit(run_number).cast("bigint").alias("run_number"),
            (part * (1 << ROW_BITS) + number).alias("row_id"),
            *columns,
        )
        .persist()
    )
    counted = Observation(f"rowlease load {load_id}")
    observed = numbered.observe(counted, F.count(F.lit(1)).alias("num_rows"))
    table, written = staged(observed, dsn)
    try:
        with (
            reported(context, store, load_id, run_number) if store else nullcontext(),
            database_errors(dsn, "the rows could not be staged, nothing was enqueued"),
        ):
            written.write.format("jdbc").options(
                **writing_options(dsn, observed.columns), dbtable=table, batchsize=BATCH_SIZE
            ).mode("append").save()
    finally:
        numbered.unpersist()
    parts = [each << TRY_BITS for each in range(tasks)]
    named = kind if isinstance(kind, str) else None
    return Staged(load_id, run_number, counted.get["num_rows"], named, parts)
