"""How fast does a DataFrame become requests, and what does "exactly once" cost?

    python -m benchmarks.spark [--rows 1000000] [--runs 5] [--keys] [--no-limits] [--dsn ...]

The same rows, cached in Spark's memory, are written in each way in turn; before each the tables are
emptied and a checkpoint is made. "Plain append" is what Spark offers by itself: tuned JDBC into a
table. One table is what one would make for oneself (OWN_TABLE), the other is `queue` with all its
indexes and checks. There a retried task duplicates rows, and a failed job leaves some in the table.
The copy without indexes and psycopg's COPY show the limits; they are not ways to enqueue.

The server is that of ROWLEASE_TEST_PG_DSN, else an embedded one. The databases are created for the
benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, Any

import psycopg

from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_least, finish, ratio, times
from rowlease.spark import enqueue, local_session, register
from rowlease.spark.jdbc import writing_options

EMPTIED = ("queue", "bare", "own", "lane", "lane_part", "load", "queue_depth")
#: The columns that a plain append must set itself; for a load, promote sets them.
COLUMNS = (
    "queue_name", "kind", "status", "priority", "requested_time", "due_time", "max_attempts",
    "dedup_key", "payload",
)  # fmt: skip
OWN = "plain append into a table of one's own (not exactly once)"
PLAIN = "plain append into the queue (not exactly once)"
JDBC, COPY = "rowlease.spark.enqueue, JDBC", "rowlease.spark.enqueue, COPY"
FORMAT = 'format("rowlease"), COPY'
#: The goals, as shares of the speed of a plain append into a table of one's own: without dedup
#: keys, and with them.
GOALS = {JDBC: (1.3, 0.7), COPY: (2.0, 0.9), FORMAT: (3.0, 0.9)}
OWN_TABLE = """
    create table rowlease.own (
      id bigint generated always as identity primary key, queue_name text not null,
      kind text not null, priority int not null, payload jsonb not null,
      status text not null default 'Pending', dedup_key text unique);
    create index on rowlease.own (queue_name, priority desc, id) where status = 'Pending'
"""


def rows(spark: Any, count: int, keys: bool) -> Any:
    """Rows with payloads of about 110 characters and ten priorities, in a partition per core."""
    key = "concat('key-', lpad(id, 10, '0'))" if keys else "cast(null as string)"
    frame = spark.range(0, count, 1, spark.sparkContext.defaultParallelism).selectExpr(
        "cast(id % 10 as int) as priority",
        "to_json(named_struct('n', id, 'path', concat('/archive/2026/', id % 997, '/', id, '.tar'),"
        " 'sum', md5(cast(id as string)), 'again', false)) as payload",
        f"{key} as dedup_key",
    )
    return frame.persist()


def as_queue_rows(frame: Any) -> Any:
    """The rows with all columns that a writer of the table `queue` must set."""
    now = f"timestamp'{datetime.now(UTC):%Y-%m-%d %H:%M:%S}'"
    printed = {
        "queue_name": "'default'", "kind": "'k'", "status": "'Pending'", "requested_time": now,
        "due_time": now, "max_attempts": "5",
    }  # fmt: skip
    return frame.selectExpr(*(f"{printed.get(name, name)} as {name}" for name in COLUMNS))


def appended(frame: Any, dsn: str, table: str) -> None:
    frame.write.format("jdbc").options(
        **writing_options(dsn), dbtable=table, batchsize=10_000
    ).mode("append").save()


def written(frame: Any, dsn: str, keys: bool) -> None:
    if not keys:
        frame = frame.drop("dedup_key")
    options = {"dsn": dsn, "queue": "default", "kind": "k"}
    frame.write.format("rowlease").options(**options).mode("append").save()


def rendered(frame: Any) -> IO[bytes]:
    """The rows as CSV for PostgreSQL, made before the measurement."""
    file = TemporaryFile()  # noqa: SIM115
    for row in as_queue_rows(frame).toLocalIterator(prefetchPartitions=True):
        values = ("" if value is None else str(value).replace('"', '""') for value in row)
        file.write((",".join(f'"{value}"' if value else "" for value in values) + "\n").encode())
    return file


def copied(file: IO[bytes], dsn: str) -> None:
    file.seek(0)
    with (
        psycopg.connect(dsn) as connection,
        connection.cursor().copy(
            f"copy rowlease.queue ({', '.join(COLUMNS)}) from stdin (format csv)"
        ) as copy,
    ):
        while block := file.read(1 << 17):
            copy.write(block)


def ways(frame: Any, dsn: str, keys: bool, file: IO[bytes] | None) -> dict[str, Callable[[], Any]]:
    """The ways to write the rows, by name. The limits need the file."""
    columns: dict[str, Any] = {"kind": "k", "priority": "priority", "payload": "payload"}
    if keys:
        columns["dedup_key"] = "dedup_key"
    own = frame.selectExpr("'default' as queue_name", "'k' as kind", *frame.columns)
    found: dict[str, Callable[[], Any]] = {
        OWN: lambda: appended(own if keys else own.drop("dedup_key"), dsn, "rowlease.own"),
        PLAIN: lambda: appended(as_queue_rows(frame), dsn, "rowlease.queue"),
        JDBC: lambda: enqueue(frame, dsn, queue="default", by="jdbc", **columns),
        COPY: lambda: enqueue(frame, dsn, queue="default", by="copy", **columns),
        FORMAT: lambda: written(frame, dsn, keys),
    }
    if file is None:
        return found
    return found | {
        "limit: plain append, no indexes": lambda: appended(
            as_queue_rows(frame), dsn, "rowlease.bare"
        ),
        "limit: COPY by psycopg into the queue": lambda: copied(file, dsn),
    }


def seconds(sql: psycopg.Connection, way: Callable[[], Any], count: int) -> float:
    sql.execute(f"truncate {', '.join(f'rowlease.{table}' for table in EMPTIED)}")
    sql.execute("checkpoint")
    began = time.monotonic()
    way()
    took = time.monotonic() - began
    found = sql.execute(
        "select (select count(*) from rowlease.requests) + (select count(*) from rowlease.bare)"
        " + (select count(*) from rowlease.own)"
    ).fetchone()
    if found != (count,):
        raise SystemExit(f"{found} rows arrived where {count} were sent")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5, help="of which the median counts")
    parser.add_argument("--keys", action="store_true", help="give each row a dedup key")
    parser.add_argument("--no-limits", action="store_true", help="only the ways to enqueue")
    add_dsn(parser)
    given = parser.parse_args()
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        printed = described(place)
        dsn = stack.enter_context(database(place))
        spark = local_session("rowlease benchmark")
        stack.callback(spark.stop)
        register(spark)
        sql = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        sql.execute(
            "create table rowlease.bare (like rowlease.queue including all excluding indexes)"
        )
        sql.execute(OWN_TABLE)
        frame = rows(spark, given.rows, given.keys)
        file = None if given.no_limits else stack.enter_context(rendered(frame))
        took: dict[str, list[float]] = {}
        for _ in range(given.runs + 1):
            for name, way in ways(frame, dsn, given.keys, file).items():
                took.setdefault(name, []).append(seconds(sql, way, given.rows))
    # The first round only warmed up.
    took = {name: values[1:] for name, values in took.items()}
    own, plain = took[OWN], took[PLAIN]
    table = [
        [
            name,
            *times(values, "s"),
            f"{given.rows / statistics.median(values):,.0f}",
            f"{ratio(own, values):.2f}",
            f"{ratio(plain, values):.2f}",
        ]
        for name, values in took.items()
    ]
    keyed = "with" if given.keys else "without"
    goals = [
        at_least(
            f"{name}, {keyed} keys, against a plain append into a table of one's own",
            wanted[given.keys],
            ratio(own, took[name]),
        )
        for name, wanted in GOALS.items()
    ]
    kept_as = "spark_keys" if given.keys else ""
    title = f"{given.rows:,} rows {keyed} dedup keys from Spark, medians of {given.runs}"
    columns = ["way", "time", "spread", "rows/s", "of one's own table", "of the queue"]
    return finish(Table(title, printed, columns, table, goals, kept_as=kept_as))


if __name__ == "__main__":
    sys.exit(main())
