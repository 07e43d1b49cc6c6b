"""Does promote slow down if the queue is full and the lane was not analysed?

    python -m benchmarks.promote [--rows 300000] [--waiting 10000000] [--runs 3] [--dsn ...]

A load is promoted into an empty queue from an analysed lane, and into a queue of ten million
waiting requests with keys from a lane without statistics. Both are done for a load with due times
and for one with keys. Before each run the requests of the earlier run are deleted, and a checkpoint
is made. Autovacuum is off for `lane`, because it would analyse the table.

The server is that of ROWLEASE_TEST_PG_DSN, else an embedded one. The databases are created for the
benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import sys
import time

import psycopg

from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_most, finish, ratio, times

GOAL = 1.5
STAGE = """
    insert into rowlease.lane (run_number, part, ends_part, priority, kind, payload, due_time,
                               dedup_key)
    select %s, 0, n = 1, n % 10, 'k',
           format('{"n":%%s,"path":"/archive/2026/%%s/%%s.tar","sum":"%%s"}', n, n %% 997, n,
                  md5(n::text))::json, now(), case when %s then 'new-' || lpad(n::text, 10, '0') end
      from generate_series(1, %s) n
"""
FILL = """
    insert into rowlease.queue (queue_name, kind, status, priority, requested_time, due_time,
                                max_attempts, dedup_key, payload)
    select 'default', 'k', 'Pending', n % 10, now(), now(), 5, 'key-' || lpad(n::text, 10, '0'),
           json_build_object('n', n, 'path', '/archive/2026/' || n || '.tar', 'sum', md5(n::text))
      from generate_series(%s::bigint, %s) n
"""
FORGET = "delete from pg_statistic where starelid = 'rowlease.lane'::regclass"


def fill(sql: psycopg.Connection, count: int) -> None:
    """Insert waiting requests; the indexes are created afterwards, which is faster."""
    sql.execute("truncate rowlease.queue")
    indexes = sql.execute(
        "select indexname, indexdef from pg_indexes where schemaname = 'rowlease'"
        " and tablename = 'queue' and indexname <> 'queue_pkey'"
    ).fetchall()
    for name, _ in indexes:
        sql.execute(f"drop index rowlease.{name}")
    for first in range(1, count, 1_000_000):
        last = min(count, first + 999_999)
        sql.execute(FILL.replace(" % 10", " %% 10"), [first, last])
        print(f"{last:,} requests wait", file=sys.stderr)
    for _, definition in indexes:
        sql.execute(definition)
    sql.execute("vacuum analyze rowlease.queue")


def promoted(sql: psycopg.Connection, rows: int, keyed: bool, analysed: bool) -> float:
    """Promote a load; return the microseconds per row."""
    sql.execute("delete from rowlease.queue where load_id = 'load'")
    sql.execute("truncate rowlease.lane, rowlease.lane_part, rowlease.load, rowlease.queue_depth")
    ((run,),) = sql.execute(
        "select run_number from rowlease.begin_load('load', 'default', 'benchmark')"
    ).fetchall()
    sql.execute(STAGE.replace(" % 10", " %% 10"), [run, keyed, rows])
    if analysed:
        sql.execute("analyze rowlease.lane")
    else:
        sql.execute(FORGET)
    sql.execute("checkpoint")
    began = time.monotonic()
    sql.execute("select * from rowlease.promote('load', %s, %s)", [run, rows])
    return (time.monotonic() - began) / rows * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=300_000, help="of the load")
    parser.add_argument("--waiting", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    add_dsn(parser)
    given = parser.parse_args()
    took: dict[tuple[bool, bool], list[float]] = {}
    with (
        server(given.dsn) as place,
        database(place) as dsn,
        psycopg.connect(dsn, autocommit=True) as sql,
    ):
        printed = described(place)
        sql.execute("alter table rowlease.lane set (autovacuum_enabled = false)")
        for full in (False, True):
            if full:
                fill(sql, given.waiting)
            for keyed in (False, True):
                for turn in range(given.runs + 1):
                    found = promoted(sql, given.rows, keyed, analysed=not full)
                    if turn:  # the first one only warms up
                        took.setdefault((keyed, full), []).append(found)
    rows, goals = [], []
    for keyed in (False, True):
        name = "with keys" if keyed else "with due times"
        small, big = took[keyed, False], took[keyed, True]
        rows.append([name, *times(small, "µs"), *times(big, "µs"), f"{ratio(big, small):.2f}"])
        what = f"promote into a full queue, never analysed, {name}"
        goals.append(at_most(what, GOAL, ratio(big, small), " x the time a row"))
    title = f"Time to promote a row, loads of {given.rows:,}, medians of {given.runs}"
    full_queue = f"{given.waiting:,} wait, never analysed"
    columns = ["load", "empty queue, analysed", "spread", full_queue, "spread", "ratio"]
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
