"""Reads requests, and the results of finished ones, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.spark.jdbc import connection_options, database_errors, literal
from rowlease.store import is_sqlserver

#: Rows that the driver holds at once; PostgreSQL's would read a whole partition into memory.
FETCH_SIZE = 10_000
LIVE_STATUSES = ("Scheduled", "Pending", "Processing", "Failed")
FINAL_STATUSES = ("Complete", "Cancelled")


def read_requests(
    spark: Any,
    dsn: str,
    *,
    queue: str | None = None,
    load_id: str | None = None,
    status: str | Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
) -> Any:
    """The requests of a database as a DataFrame, read in parallel over JDBC.

    Lazy, except for a small query for the range of request ids. Each partition is read in its own
    transaction: while requests move, the whole is not one instant, and a request that is finished
    between two reads can be seen twice or not at all. Finished requests do not change.

    Args:
        spark: a session with the PostgreSQL JDBC driver, such as a `local_session`.
        dsn: `postgresql://user:password@host:port/database`.
        queue: only this queue.
        load_id: only requests of this load.
        status: only these: Scheduled, Pending, Processing, Failed, Complete, Cancelled.
        columns: these columns of the view `requests`, in this order; None takes all.
        partitions: how many connections read at once; None takes Spark's default parallelism.

    Returns:
        A DataFrame; `payload` and `result` are JSON text, times are timestamps.

    Raises:
        InvalidRequest: an unknown column or status.
        ConfigError: the DSN cannot be read or names SQL Server, or the session has no JDBC driver.
        StoreUnavailable, AccessDenied, SchemaMismatch, StoreError: from the database.
    """
    from pyspark.sql import functions as F

    partitions = spark.sparkContext.defaultParallelism if partitions is None else partitions
    if partitions < 1:
        raise ConfigError(f"partitions must be 1 or more, not {partitions}")
    table, conditions = _selection(queue, load_id, status)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    if is_sqlserver(dsn):
        raise ConfigError(
            "requests are read back from PostgreSQL only; read the view rowlease.Requests of SQL "
            "Server with Spark's own JDBC source"
        )
    options = {**connection_options(dsn), "fetchsize": str(FETCH_SIZE)}
    with database_errors(dsn, "the requests could not be read"):
        bounds = _query(
            spark,
            options,
            f"select min(request_id) as first, max(request_id) as last from {table}{where}",  # noqa: S608
        ).first()
        if bounds["first"] is not None and partitions > 1:
            options |= {
                "partitionColumn": "request_id",
                "lowerBound": str(bounds["first"]),
                # Spark cuts the range below this; the last partition is open upwards anyway.
                "upperBound": str(bounds["last"] + 1),
                "numPartitions": str(partitions),
            }
        frame = _query(spark, options, f"select * from {table}{where}")  # noqa: S608
    if columns is None:
        return frame
    if unknown := [name for name in columns if name not in frame.columns]:
        raise InvalidRequest(
            f"requests have no column {unknown[0]!r}; they have {', '.join(frame.columns)}"
        )
    return frame.select(*(F.col(name) for name in columns))


def _selection(
    queue: str | None, load_id: str | None, status: str | Iterable[str] | None
) -> tuple[str, list[str]]:
    """The table to read and the conditions on it."""
    conditions = []
    if queue is not None:
        conditions.append(f"queue_name = {literal(queue)}")
    if load_id is not None:
        conditions.append(f"load_id = {literal(load_id)}")
    if status is None:
        return "rowlease.requests", conditions
    wanted = {status} if isinstance(status, str) else set(status)
    if unknown := wanted - set(LIVE_STATUSES) - set(FINAL_STATUSES):
        known = ", ".join((*LIVE_STATUSES, *FINAL_STATUSES))
        raise InvalidRequest(f"{min(unknown)!r} is not a status; they are {known}")
    if not wanted:
        raise InvalidRequest("status is empty; leave it out to read all")
    conditions.append(f"status in ({', '.join(literal(word) for word in sorted(wanted))})")
    # Finished requests are not in the queue.
    return (
        "rowlease.queue_history" if wanted <= set(FINAL_STATUSES) else "rowlease.requests",
        conditions,
    )


def _query(spark: Any, options: dict[str, str], query: str) -> Any:
    return spark.read.format("jdbc").options(**options, dbtable=f"({query}) requests").load()
