"""What does a load cost by the lane: its rows, its promotion, and the claims of its requests?

    python -m benchmarks.lane [--rows 1000000] [--runs 5] [--dsn postgresql://...]

Rows are written by COPY on two connections, as by two tasks of Spark, and then promoted; the same
with dedup keys, and straight into `queue` as a plain append would. Then claims of 1, 10 and 100
are made, in turns, from a queue whose requests came one by one and from one whose requests are in
the lane. Writing and promoting are times on the clock; claims are processor time of the server's
backend, which Linux accounts for in nanoseconds. The server must be on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, at_least, at_most, finish, ratio, times

#: Connections that write.
TASKS = 2
#: Rows of a block of COPY.
BLOCK = 2000
#: Requests of a claim, and how many such claims a run makes.
CLAIMS = {1: 60, 10: 40, 100: 20}
PAYLOAD = '{"n":%d,"path":"/archive/2026/%d/%d.tar","sum":"%032x"}'
NOW = "2026-01-01 12:00:00+00"
#: For each way: the table and columns, and a line without its payload.
COPIES: dict[str, tuple[str, Callable[[int, int, int], str]]] = {
    "queue": (
        "queue (queue_name, kind, status, priority, requested_time, due_time, max_attempts,"
        " load_id, payload)",
        lambda run, task, n: f"default\tnoop\tPending\t{n % 10}\t{NOW}\t{NOW}\t5\tload\t",
    ),
    "lane with keys": (
        "lane (run_number, part, ends_part, priority, kind, dedup_key, payload)",
        lambda run, task, n: f"{run}\t{task << 16}\t{n == 0:d}\t{n % 10}\tnoop\t{task}-{n}\t",
    ),
    "lane": (
        "lane (run_number, part, ends_part, priority, kind, payload)",
        lambda run, task, n: f"{run}\t{task << 16}\t{n == 0:d}\t{n % 10}\tnoop\t",
    ),
}


def blocks(way: str, run: int, task: int, rows: int) -> Iterator[bytes]:
    """The rows of a task."""
    line = COPIES[way][1]
    for first in range(0, rows, BLOCK):
        numbers = range(first, min(first + BLOCK, rows))
        text = "\n".join(line(run, task, n) + PAYLOAD % (n, n % 997, n, n * 7919) for n in numbers)
        yield text.encode() + b"\n"


def write(dsn: str, way: str, made: list[bytes]) -> None:
    """Write the rows of a task in one transaction."""
    with (
        psycopg.connect(dsn) as sql,
        sql.cursor().copy(f"copy rowlease.{COPIES[way][0]} from stdin") as copy,
    ):
        for block in made:
            copy.write(block)


def load(dsn: str, sql: psycopg.Connection, way: str, rows: int) -> tuple[float, float]:
    """Seconds to write a load, and to promote it."""
    sql.execute(
        "truncate rowlease.queue, rowlease.queue_depth, rowlease.load,"
        " rowlease.lane, rowlease.lane_part"
    )
    begun = "select run_number from rowlease.begin_load('load', 'default', 'benchmark')"
    ((run,),) = sql.execute(begun).fetchall()
    made = [list(blocks(way, run, task, rows // TASKS)) for task in range(TASKS)]
    sql.execute("checkpoint")
    began = time.monotonic()
    with ThreadPoolExecutor(TASKS) as pool:
        for done in [pool.submit(write, dsn, way, made[task]) for task in range(TASKS)]:
            done.result()
    written = time.monotonic()
    if way != "queue":
        sql.execute("select * from rowlease.promote('load', %s, %s)", [run, rows])
    return written - began, time.monotonic() - written


def claims(sql: psycopg.Connection) -> dict[int, float]:
    """The median microseconds of a claim, by its size."""
    spent = Path(f"/proc/{sql.info.backend_pid}/schedstat")
    found = {}
    for size, count in CLAIMS.items():
        took = []
        for _ in range(count):
            before = int(spent.read_text().split()[0])
            rows = sql.execute(
                "select * from rowlease.dequeue('bench', '{default}', %s)", [size], binary=True
            ).fetchall()
            took.append((int(spent.read_text().split()[0]) - before) / 1000)
            assert len(rows) == size + 1
        found[size] = statistics.median(took)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the load")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    loads: dict[str, list[tuple[float, float]]] = {way: [] for way in COPIES}
    taken: dict[str, list[dict[int, float]]] = {"queue": [], "lane": []}
    with (
        server(given.dsn) as place,
        database(place) as dsn,
        psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as sql,
    ):
        printed = described(place)
        for turn in range(given.runs + 1):
            for way in COPIES:
                took = load(dsn, sql, way, given.rows)
                if turn:  # the first one only warms up
                    loads[way].append(took)
        for turn in range(given.runs + 1):
            for way, each in taken.items():
                load(dsn, sql, way, 20_000)
                as_in_use(dsn)
                sql.execute("set synchronous_commit = off")
                measured = claims(sql)
                if turn:
                    each.append(measured)
    plain = [written for written, _ in loads["queue"]]
    rows = []
    for way, found in loads.items():
        whole = [sum(each) for each in found]
        promoted = times([each * 1000 for _, each in found])[0] if way != "queue" else ""
        rows.append([f"load by {way}", *times(whole, "s"), promoted, f"{ratio(plain, whole):.2f}"])
    ratios = {}
    for size in CLAIMS:
        ones, theirs = ([each[size] for each in taken[way]] for way in ("queue", "lane"))
        ratios[size] = ratio(ones, theirs)
        rows.append([f"claim of {size}, queue", *times(ones, "µs"), "", "1.00"])
        rows.append([f"claim of {size}, lane", *times(theirs, "µs"), "", f"{ratios[size]:.2f}"])
    lane = [sum(each) for each in loads["lane"]]
    promote = statistics.median([each for _, each in loads["lane"]]) * 1000
    goals = [
        at_least("a load by the lane, of a plain append", 1.5, ratio(plain, lane)),
        at_most("promote", 20, promote, " ms"),
        at_least("claims of 100 from the lane", 1.2, ratios[100]),
    ]
    title = f"A load of {given.rows:,} rows, and claims of its requests, medians of {given.runs}"
    columns = ["what", "time", "spread", "of which promote", "of a plain append, or a usual claim"]
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
