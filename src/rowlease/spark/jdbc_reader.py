"""Reads requests and their results as a DataFrame, over JDBC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.filters.filter import statuses
from rowlease.spark.jdbc import connection_options, database_errors, is_connect, literal
from rowlease.store import engine_of

#: The number of rows in one fetch. By default, PostgreSQL's driver reads a whole partition into
#: memory.
FETCH_SIZE = 10_000
#: The number of connections that read at once over Spark Connect.
CONNECT_PARTITIONS = 8
#: The columns that the report reads. It needs only the first line of an error.
REPORT_COLUMNS = (
    "queue_name, kind, status, priority, requested_time, due_time, locked_time, completion_time,"
    " num_attempts, left(split_part(last_error, chr(10), 1), 300) as error"
)
#: The statuses of requests in the queue.
LIVE_STATUSES = ("Scheduled", "Pending", "Processing", "Failed")
#: The statuses of requests in the history.
FINAL_STATUSES = frozenset({"Complete", "Cancelled"})


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

    Rows are read lazily, and this call runs no Spark job. It asks the database for the range of
    request ids over a connection of its own, so this process needs a route to it. Each partition is
    read in its own transaction. So while requests change, the result is not one snapshot: a request
    that finishes between the reads of two partitions may appear twice or not at all. Finished
    requests do not change.

    Args:
        spark: a session with the PostgreSQL JDBC driver, such as a `local_session`.
        dsn: `postgresql://user:password@host:port/database`.
        queue: the queue to read; None means all.
        load_id: the load whose requests to read; None means all requests.
        status: the statuses to read: Scheduled, Pending, Processing, Failed, Complete, Cancelled.
            None means all.
        columns: the columns of the view `requests` to read, in this order; None means all.
        partitions: the number of connections that read at once. None means Spark's default
            parallelism, or 8 in a session of Spark Connect, which does not tell it.

    Returns:
        A DataFrame. `payload` and `result` are JSON text, and times are timestamps.

    Raises:
        InvalidRequest: a column or status is unknown.
        ConfigError: the DSN cannot be read or names SQL Server, or the session has no JDBC driver.
        StoreUnavailable, AccessDenied, SchemaMismatch, StoreError: the database refused the query
            or cannot be reached.
    """
    from pyspark.sql import functions as F

    if partitions is None:
        partitions = (
            CONNECT_PARTITIONS if is_connect(spark) else spark.sparkContext.defaultParallelism
        )
    if partitions < 1:
        raise ConfigError(f"partitions must be 1 or more, not {partitions}")
    table, conditions = _selection(queue, load_id, status)
    engine_of(dsn).check_reads_back()
    frame = _read(spark, dsn, "*", table, conditions, partitions)
    if columns is None:
        return frame
    if unknown := [name for name in columns if name not in frame.columns]:
        raise InvalidRequest(
            f"requests have no column {unknown[0]!r}; they have {', '.join(frame.columns)}"
        )
    return frame.select(*(F.col(name) for name in columns))


def read_times(
    spark: Any, dsn: str, queues: Sequence[str], since: datetime, until: datetime, partitions: int
) -> Any:
    """The statuses, times and errors of requests, without their payloads and results.

    Args:
        queues: the names of the queues; empty means all queues.
        since, until: when the requests ended, or were last leased if they are dead letters.
    """
    window = [f"{{at}} >= {_moment(since)}", f"{{at}} < {_moment(until)}"]
    if queues:
        window.append(f"queue_name in ({', '.join(map(literal, queues))})")

    def ended(table: str, at: str, *more: str) -> Any:
        conditions = [*(each.replace("{at}", at) for each in window), *more]
        return _read(spark, dsn, f"request_id, {REPORT_COLUMNS}", table, conditions, partitions)

    # In the history the condition must be on the plain column, so that partitions are skipped.
    return ended("rowlease.queue_history", "completion_time").unionByName(
        ended("rowlease.requests", "coalesce(completion_time, locked_time)", _of(LIVE_STATUSES))
    )


def _selection(
    queue: str | None, load_id: str | None, status: str | Iterable[str] | None
) -> tuple[str, list[str]]:
    """The table to read, and the conditions on its rows."""
    conditions = []
    if queue is not None:
        conditions.append(f"queue_name = {literal(queue)}")
    if load_id is not None:
        conditions.append(f"load_id = {literal(load_id)}")
    if status is None:
        return "rowlease.requests", conditions
    wanted = set(statuses(status if isinstance(status, str) else list(status)))
    if not wanted:
        raise InvalidRequest("status is empty; leave it out to read all requests")
    conditions.append(_of(sorted(wanted)))
    # The history alone has all finished requests.
    return (
        "rowlease.queue_history" if wanted <= FINAL_STATUSES else "rowlease.requests",
        conditions,
    )


def _of(statuses: Iterable[str]) -> str:
    return f"status in ({', '.join(map(literal, statuses))})"


def _moment(at: datetime) -> str:
    return f"{literal(at.isoformat())}::timestamptz"


def _read(
    spark: Any, dsn: str, columns: str, table: str, conditions: Sequence[str], partitions: int
) -> Any:
    """The columns of a table, of which `request_id` is one, read in ranges of request ids."""
    selection = " where ".join([table, " and ".join(conditions)] if conditions else [table])
    ranges = None
    if partitions > 1:
        with closing(engine_of(dsn).bulk_store("rowlease spark")) as store:
            query = f"select min(request_id), max(request_id) from {selection}"  # noqa: S608
            first, last = store.one_row(query)
        ranges = id_ranges(first, last, partitions)
    options = connection_options(dsn)
    with database_errors(dsn, "the requests could not be read"):
        return spark.read.jdbc(
            options["url"],
            f"(select {columns} from {selection}) requests",  # noqa: S608
            predicates=ranges,
            properties={**options, "fetchsize": str(FETCH_SIZE)},
        )


def id_ranges(first: int | None, last: int | None, partitions: int) -> list[str] | None:
    """Conditions that divide request ids into ranges, all together without a bound.

    Those that Spark makes of a `lowerBound` are slower: its first range is `or request_id is null`,
    for which PostgreSQL reads the whole table.

    Args:
        first, last: the first and the last id; None if there is none.
    """
    if first is None or last is None:
        return None
    bounds = {first + (last + 1 - first) * n // partitions for n in range(1, partitions)}
    inner = sorted(bounds - {first})
    at_least = ["true", *(f"request_id >= {bound}" for bound in inner)]
    below = [*(f"request_id < {bound}" for bound in inner), "true"]
    return [" and ".join(pair) for pair in zip(at_least, below, strict=True)]
