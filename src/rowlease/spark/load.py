"""Bulk enqueue: a DataFrame becomes requests, all of them or none, each row once.

Spark's tasks are retried and speculated, so rows are never written into the queue itself. They go
into the table `staging`, numbered; then one routine, `promote`, counts them, drops what was written
twice and moves them into the queue in one transaction.
"""

from __future__ import annotations

import logging
import time
import uuid
from contextlib import ExitStack, closing, suppress
from typing import Any, NamedTuple

from rowlease.errors import InvalidRequest, StoreConflict, StoreUnavailable
from rowlease.model import Promoted
from rowlease.spark.jdbc import connection_options, database_errors, staged, writing_options
from rowlease.store import Store, open_store

#: Characters of a load id; the column is that wide.
MAX_LOAD_ID = 100
#: Rows that the driver gathers before it sends them; the rewritten INSERT is what makes it fast.
BATCH_SIZE = 10_000
#: The column is a PostgreSQL integer; the queue clamps to its own maximum, far below.
MAX_INTEGER = 2**31 - 1
#: Seconds between tries of a promotion whose answer did not come.
PAUSES = (0.5, 2.0)
INTEGERS = ("tinyint", "smallint", "int", "bigint")


class Staged(NamedTuple):
    """A load that waits for its promotion.

    Attributes:
        kind: for the rows that name none themselves.
    """

    load_id: str
    num_rows: int
    kind: str | None


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
    store: Store | None = None,
) -> Promoted:
    """Turn each row of a DataFrame into one request of a queue.

    All rows become visible to workers in one step, or none does. Calling it again with the same
    `load_id` enqueues nothing and answers `repeat` with the first call's counts, however the first
    one ended and whoever made it. After a run that died between its two steps, hand in the same
    rows in the same order and partitions: what that run staged counts as written.

    A column is given by its name or as a Column expression.

    Args:
        df: a batch DataFrame. It is computed once and kept (memory, then disk) until the rows are
            written, so it need not be deterministic.
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        queue: an existing queue.
        kind: the task's name, for all rows if it is a str; a Column of strings gives each its own.
        priority: an int of 0 or more for all rows, or a column of integers; bigger is more urgent,
            null is 0; clamped to the queue's maximum.
        payload: a column of JSON text, or of a struct or map, which becomes JSON; at most 1 MiB.
            None takes the whole row, nulls included. Null is `{}`.
        dedup_key: a column; a row whose key is live in the queue already, or that came before in
            this frame, is counted as a duplicate and left out. Null has no key.
        group_key: a column; requests of a group run one at a time.
        due_time: a column of timestamps; null and past ones mean now.
        load_id: 1 to 100 characters; None makes one up.
        store: a store on the same database; None opens one for this call.

    Returns:
        The outcome and the numbers of rows, of new requests and of duplicates.

    Raises:
        InvalidRequest: an argument, a column or a row cannot be accepted; the message names it.
            Nothing was enqueued; columns are checked before any Spark job runs.
        QueueFull: the load does not fit into the queue's capacity; nothing was enqueued.
        ConfigError: the DSN cannot be read, or the session has no JDBC driver.
        StoreUnavailable, AccessDenied, SchemaMismatch, StoreError: from the database; nothing was
            enqueued, unless the answer to the promotion was lost, three times in a row: call again
            with the same load id.
    """
    staged = stage(
        df,
        dsn,
        kind=kind,
        priority=priority,
        payload=payload,
        dedup_key=dedup_key,
        group_key=group_key,
        due_time=due_time,
        load_id=load_id,
    )
    with ExitStack() as stack:
        if store is None:
            store = stack.enter_context(closing(open_store(dsn, application_name="rowlease spark")))
        return promoted(store, queue, staged)


def promoted(store: Store, queue: str, staged: Staged) -> Promoted:
    """Promote a staged load; again if the answer does not come, whatever became of the first."""
    for pause in PAUSES:
        with suppress(StoreUnavailable, StoreConflict):
            return store.promote(staged.load_id, queue, staged.num_rows, kind=staged.kind)
        time.sleep(pause)
    return store.promote(staged.load_id, queue, staged.num_rows, kind=staged.kind)


def stage(
    df: Any,
    dsn: str,
    *,
    kind: Any,
    priority: Any = None,
    payload: Any = None,
    dedup_key: Any = None,
    group_key: Any = None,
    due_time: Any = None,
    load_id: str | None = None,
) -> Staged:
    """The first half of `enqueue`: write the rows where no worker sees them, and count them.

    Rows of a load that is never promoted stay in the table `staging`.

    Args, raises: as `enqueue`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    load_id = uuid.uuid4().hex if load_id is None else load_id
    if not 1 <= len(load_id) <= MAX_LOAD_ID:
        raise InvalidRequest(f"load_id must have 1 to {MAX_LOAD_ID} characters")
    if df.isStreaming:
        raise InvalidRequest("the frame is a stream; enqueue each of its batches (foreachBatch)")
    connection_options(dsn)  # a DSN that cannot be read is said before any job
    columns = staging_columns(df, kind, priority, payload, dedup_key, group_key, due_time)
    # More connections than cores only wait for each other. The rows are numbered where they lie,
    # and kept, because a number is only worth something if a retried task gives it again.
    numbered = (
        df.coalesce(df.sparkSession.sparkContext.defaultParallelism)
        .select(
            F.lit(load_id).alias("load_id"),
            F.monotonically_increasing_id().alias("row_id"),
            *columns,
        )
        .persist()
    )
    counted = Observation(f"rowlease load {load_id}")
    observed = numbered.observe(counted, F.count(F.lit(1)).alias("num_rows"))
    table, written = staged(observed, dsn)
    try:
        with database_errors(dsn, "the rows could not be staged, nothing was enqueued"):
            written.write.format("jdbc").options(
                **writing_options(dsn, observed.columns), dbtable=table, batchsize=BATCH_SIZE
            ).mode("append").save()
    finally:
        numbered.unpersist()
    return Staged(load_id, counted.get["num_rows"], kind if isinstance(kind, str) else None)


def staging_columns(
    df: Any,
    kind: Any,
    priority: Any,
    payload: Any,
    dedup_key: Any,
    group_key: Any,
    due_time: Any,
) -> list[Any]:
    """The columns of `staging` as expressions on the frame; what is not given is left out.

    Raises:
        InvalidRequest: see `enqueue`.
    """
    from pyspark.sql import Column

    columns = [payload_column(df, payload)]
    if isinstance(kind, Column):
        columns.append(checked(df, "kind", kind, ("string",)))
    elif not isinstance(kind, str) or not kind:
        raise InvalidRequest("kind must be the name of a task, or a Column of names")
    if priority is not None:
        columns.append(priority_column(df, priority))
    for argument, given, types in (
        ("dedup_key", dedup_key, ("string", *INTEGERS)),
        ("group_key", group_key, ("string", *INTEGERS)),
        ("due_time", due_time, ("timestamp",)),
    ):
        if given is not None:
            column = checked(df, argument, given, types)
            as_type = "timestamp" if types == ("timestamp",) else "string"
            columns.append(column.cast(as_type).alias(argument))
    return columns


def priority_column(df: Any, given: Any) -> Any:
    """The priority as an integer column; the queue clamps what is too large for one anyway."""
    from pyspark.sql import functions as F

    if isinstance(given, bool):
        raise InvalidRequest("priority must be an int, a column name or a Column, not bool")
    if isinstance(given, int):
        if given < 0:
            raise InvalidRequest(f"priority must be 0 or more, not {given}")
        return F.lit(min(given, MAX_INTEGER)).cast("int").alias("priority")
    column = checked(df, "priority", given, INTEGERS)
    return (
        F.when(column > MAX_INTEGER, MAX_INTEGER)
        .when(column < -MAX_INTEGER, -MAX_INTEGER)
        .otherwise(column)
        .cast("int")
        .alias("priority")
    )


def payload_column(df: Any, given: Any) -> Any:
    """The payload as JSON text."""
    from pyspark.sql import functions as F

    # A task gets the payload as keyword arguments: a null must arrive as None, not be missing.
    keep_nulls = {"ignoreNullFields": "false"}
    if given is None:
        if not df.columns:
            raise InvalidRequest("the frame has no columns to make a payload of")
        whole = F.struct(*(named(column) for column in df.columns))
        return F.to_json(checked(df, "payload", whole, ("struct",)), keep_nulls).alias("payload")
    column = checked(df, "payload", given, ("string", "struct", "map"))
    if type_name(df, column) == "string":
        return column
    return F.to_json(column, keep_nulls).alias("payload")


def checked(df: Any, argument: str, given: Any, types: tuple[str, ...]) -> Any:
    """A column argument as an expression of one of these types, under the argument's name.

    Raises:
        InvalidRequest: it is not there, does not fit the frame, or has another type.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column

    if isinstance(given, str):
        if given not in df.columns:
            known = ", ".join(df.columns[:20]) + (", ..." if len(df.columns) > 20 else "")
            raise InvalidRequest(
                f"{argument} names the column {given!r}, which the frame lacks; it has {known}"
            )
        column = named(given)
    elif isinstance(given, Column):
        column = given
    else:
        raise InvalidRequest(
            f"{argument} must be a column name or a Column, not {type(given).__name__}"
        )
    column = column.alias(argument)
    try:
        found = type_name(df, column)
    except AnalysisException as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidRequest(f"{argument} does not fit the frame: {reason}") from error
    if found not in types:
        name = f"the column {given!r}" if isinstance(given, str) else "the expression"
        raise InvalidRequest(
            f"{argument}: {name} has the type {found}; cast it to {' or '.join(types)}"
        )
    return column


def type_name(df: Any, column: Any) -> str:
    """The type of an expression on the frame, as SQL says it, without parameters; runs no job."""
    # PySpark also writes what it raises to stderr, as JSON with the Java stack.
    noise = logging.getLogger("DataFrameQueryContextLogger")
    was, noise.disabled = noise.disabled, True
    try:
        (field,) = df.select(column).schema.fields
    finally:
        noise.disabled = was
    return str(field.dataType.simpleString()).partition("<")[0].partition("(")[0]


def named(column: str) -> Any:
    """A column of the frame by exactly this name, whatever characters it has."""
    from pyspark.sql import functions as F

    return F.col(f"`{column.replace('`', '``')}`")
