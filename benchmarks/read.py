"""How fast does Spark read requests back, compared with its own JDBC source?

    python -m benchmarks.read [--rows 1000000] [--runs 5] [--dsn postgresql://...]

Complete requests with payloads of about 110 characters and small results are read by
`read_requests`, and by Spark's JDBC source on the view `rowlease.requests`: over one connection, as
it does by itself, and in ranges of request ids, as somebody may tune it. The ways take turns, and
all ask for the requests with the status Complete.

The server is that of ROWLEASE_TEST_PG_DSN, else an embedded one. The databases are created for the
benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import psycopg

from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_least, finish, ratio, times
from rowlease.spark import local_session, read_requests
from rowlease.spark.jdbc import connection_options

FILL = """
    insert into rowlease.queue_history (request_id, queue_name, kind, status, priority,
        requested_time, due_time, locked_by, locked_time, lock_expires_time, started_time,
        lock_token, num_attempts, max_attempts, payload, completion_time, result)
    select n, 'default', 'k', 'Complete', n % 10, now(), now(), 'w', now(), now(), now(), n, 1, 5,
           json_build_object('n', n, 'path', '/archive/2026/' || n || '.tar', 'sum', md5(n::text)),
           now(), json_build_object('n', n)
      from generate_series(1, {rows}) n
"""
ALONE, TUNED = "Spark's JDBC source", "Spark's JDBC source, in ranges of ids"
#: What is asked of a frame of requests.
QUERIES: dict[str, Callable[[Any], Any]] = {
    "count()": lambda frame: frame.count(),
    "count() with a filter on two columns": lambda frame: frame.where(
        "priority = 3 and num_attempts = 1"
    ).count(),
    "sum over payloads": lambda frame: frame.selectExpr(
        "sum(cast(get_json_object(payload, '$.n') as bigint))"
    ).first()[0],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        printed = described(place)
        dsn = stack.enter_context(database(place))
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(FILL.format(rows=given.rows).encode())
            sql.execute("vacuum analyze rowlease.queue_history")
        spark = local_session("rowlease benchmark")
        stack.callback(spark.stop)
        plain = {**connection_options(dsn), "dbtable": "rowlease.requests", "fetchsize": "10000"}
        ranges = {
            "partitionColumn": "request_id",
            "lowerBound": "1",
            "upperBound": str(given.rows),
            "numPartitions": str(spark.sparkContext.defaultParallelism),
        }
        complete = "status = 'Complete'"
        frames: dict[str, Callable[[], Any]] = {
            ALONE: lambda: spark.read.format("jdbc").options(**plain).load().where(complete),
            TUNED: lambda: (
                spark.read.format("jdbc").options(**plain, **ranges).load().where(complete)
            ),
            "read_requests": lambda: read_requests(spark, dsn, status="Complete"),
        }
        took: dict[tuple[str, str], list[float]] = {}
        for turn in range(given.runs + 1):
            for query, ask in QUERIES.items():
                answers = set()
                for name, frame in frames.items():
                    began = time.monotonic()
                    answers.add(ask(frame()))
                    if turn:  # the first round only warms up
                        took.setdefault((query, name), []).append(time.monotonic() - began)
                assert len(answers) == 1, (query, answers)
    rows, goals = [], []
    for query in QUERIES:
        for name in frames:
            found = ratio(took[query, TUNED], took[query, name])
            rows.append([query, name, *times(took[query, name], "s"), f"{found:.2f}"])
        goals.append(at_least(f"read_requests, {query}, against Spark's JDBC source", 1, found))
    title = f"{given.rows:,} finished requests read by Spark, medians of {given.runs}"
    columns = ["query", "way", "time", "spread", "of JDBC in ranges"]
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
