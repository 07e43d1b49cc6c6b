"""Is a queue as fast and as small after millions of requests as it was before?

    python -m benchmarks.churn [--requests 5000000] [--dsn postgresql://...]

This is a day's churn in minutes. The queue holds 1,000 requests, and pgbench on two connections
repeatedly enqueues 100 requests, claims 100 and completes them, with durable commits and receipts.
`maintain` is called once a second, as a worker does. Autovacuum runs at the server's setting
(`autovacuum_naptime`, decision 31 in docs/decisions). The rates of the first and of the last tenth
are compared, and the size of the hot tables is measured at the end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
from contextlib import closing

import psycopg

from benchmarks.filling import fill
from benchmarks.pgbench import claiming, pgbench
from benchmarks.pgbench import rates as reported
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Goal, Table, at_least, finish
from rowlease.store import open_store

DEEP = 1_000
BATCH = 100
CLIENTS = 2
EVERY = 5
LIMIT_MB = 64
ENQUEUE = f"""
select count(*) from rowlease.enqueue_many(
  'default', array_fill('noop'::text, array[{BATCH}]),
  array_fill('{{"n":1}}'::text, array[{BATCH}]),
  p_receipt_key => gen_random_uuid()::text, p_in_transaction => false);
"""
HOT = ("queue", "queue_depth", "worker", "queue_settings")
SIZE = "select pg_total_relation_size('rowlease.' || %s) / 1048576.0"


def maintain_until(ended: threading.Event, dsn: str) -> None:
    with closing(open_store(dsn)) as store:
        while not ended.wait(1):
            store.maintain()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5_000_000)
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place, database(place) as dsn:
        printed = described(place)
        fill(dsn, DEEP)
        ended = threading.Event()
        maintaining = threading.Thread(target=maintain_until, args=(ended, dsn))
        maintaining.start()
        turns = given.requests // BATCH // CLIENTS
        try:
            options = ["-c", CLIENTS, "-j", CLIENTS, "-t", turns, "-P", EVERY]
            noticed = pgbench(dsn, ENQUEUE + claiming(BATCH), options)
        finally:
            ended.set()
            maintaining.join()
        with psycopg.connect(dsn, autocommit=True) as sql:
            sizes = {table: float(sql.execute(SIZE, (table,)).fetchone()[0]) for table in HOT}  # type: ignore[index]
            receipts = float(sql.execute(SIZE, ("enqueue_receipt",)).fetchone()[0])  # type: ignore[index]
    rates = [BATCH * each for each in reported(noticed)]
    tenth = max(1, len(rates) // 10)
    first, last = rates[1 : tenth + 1], rates[-tenth:]  # the first seconds fill the caches
    hot = sum(sizes.values())
    rows = [
        ["rate, first tenth", f"{statistics.median(first):,.0f}/s"],
        ["rate, last tenth", f"{statistics.median(last):,.0f}/s"],
        ["rate, slowest and fastest 5 s", f"{min(rates):,.0f} to {max(rates):,.0f}/s"],
        *(
            [f"size at the end: {name}, its indexes with it", f"{mb:.1f} MB"]
            for name, mb in sizes.items()
        ),
        ["size at the end: enqueue_receipt (kept for a day)", f"{receipts:.1f} MB"],
    ]
    goals = [
        at_least(
            "churn, rate at the end against the start",
            0.95,
            statistics.median(last) / statistics.median(first),
        ),
        Goal("churn, hot tables and indexes", f"≤ {LIMIT_MB} MB", f"{hot:.1f} MB", hot <= LIMIT_MB),
    ]
    title = f"{given.requests:,} requests through a queue of {DEEP:,}"
    return finish(Table(title, printed, ["", "one run"], rows, goals))


if __name__ == "__main__":
    sys.exit(main())
