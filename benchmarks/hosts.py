"""What do many worker hosts cost, idle ones and busy ones?

    python -m benchmarks.hosts [--hosts 1,10,50] [--seconds 10] [--dsn postgresql://...]

Each host is a `rowlease worker` of its own, with four slots, and all share one queue. A task takes
a second. First all hosts are idle, and one request a second comes: each notification wakes all of
them, and all but one claim nothing. Then so many requests come that 70 % of all slots are busy. The
server counts the calls of the routines that claim. Everything shares one machine, so with many
hosts the workers compete for its cores, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg

from benchmarks.latency import IDLE_AGAIN, Latencies, idle_worker, measure
from benchmarks.peers.running import processor_seconds
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, finish

SLOTS = 4
#: The part of the slots that is busy, with tasks of a second.
BUSY = 0.7
#: Requests a second while all hosts are idle.
RARE = 1.0
CALLS = """
    select coalesce(sum(calls), 0) from pg_stat_user_functions
     where schemaname = 'rowlease' and funcname = 'dequeue'"""


def begin(stack: ExitStack, dsn: str, hosts: int) -> None:
    """Start this number of workers, eight at a time."""
    options = ("--executor=coroutine", f"--concurrency={SLOTS}")
    workers = [idle_worker(dsn, "nap", *options) for _ in range(hosts)]
    with ThreadPoolExecutor(8) as starts:
        list(starts.map(stack.enter_context, workers))
    time.sleep(IDLE_AGAIN)


def rows_of(place: str, hosts: int, seconds: float) -> list[list[str]]:
    """The rows of the table for this number of hosts."""
    found = []
    with database(place) as dsn, psycopg.connect(dsn, autocommit=True) as sql, ExitStack() as stack:
        sql.execute(f"alter database {sql.info.dbname} set track_functions = 'pl'")
        begin(stack, dsn, hosts)
        for name, rate in (("idle", RARE), ("70 % busy", BUSY * SLOTS * hosts)):
            ((before,),), spent = sql.execute(CALLS).fetchall(), processor_seconds()
            late = Latencies.of(measure(dsn, "nap", rate, seconds))
            time.sleep(2 * IDLE_AGAIN)  # the server tells its counts a second late
            ((after,),), spent = sql.execute(CALLS).fetchall(), processor_seconds() - spent
            count = int(rate * seconds)
            found.append(
                [
                    str(hosts),
                    name,
                    f"{rate:g}",
                    f"{late.p50:.1f} ms",
                    f"{late.p99:.1f} ms",
                    f"{(after - before) / count:.1f}",
                    f"{1000 * spent / count:.1f} ms",
                ]
            )
            print(found[-1], file=sys.stderr)
            sql.execute("truncate rowlease.queue_history")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", default="1,10,50")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place:
        printed = described(place)
        numbers = [int(number) for number in given.hosts.split(",")]
        rows = [one for hosts in numbers for one in rows_of(place, hosts, given.seconds)]
    title = f"Worker hosts with {SLOTS} slots each, tasks of a second"
    columns = ["hosts", "which are", "requests a second", "start latency, p50", "p99",
               "claims a request", "processor time of all processes a request"]  # fmt: skip
    return finish(Table(title, printed, columns, rows, []))


if __name__ == "__main__":
    sys.exit(main())
