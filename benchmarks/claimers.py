"""Do 32 claimers get in each other's way?

    python -m benchmarks.claimers [--seconds 5] [--runs 5] [--dsn postgresql://...]

pgbench calls rowlease's routines over 1 to 32 connections: one statement claims ten requests and
completes them, with a durable commit. The numbers of claimers take turns on one queue, which is
emptied and filled again before each.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import psycopg

from benchmarks.filling import fill
from benchmarks.pgbench import claiming, pgbench
from benchmarks.pgbench import rates as reported
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, at_least, finish, rates, ratio

CLIENTS = (1, 2, 4, 8, 16, 32)
BATCH = 10
#: More than any number of claimers finishes in a second.
DEEP = 50_000
#: Seconds in which new connections plan their statements.
WARM_UP = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=5, help="for each number of claimers")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    with server(given.dsn) as place, database(place) as dsn, psycopg.connect(dsn) as sql:
        printed = described(place)
        sql.autocommit = True
        script = claiming(BATCH)
        for turn in range(given.runs):
            for clients, values in found.items():
                fill(dsn, DEEP * (WARM_UP + given.seconds))
                as_in_use(dsn)
                options = ["-c", clients, "-j", 2, "-T", WARM_UP + given.seconds, "-P", 1]
                noticed = reported(pgbench(dsn, script, options))
                values.append(BATCH * statistics.mean(noticed[WARM_UP:]))
                print(f"run {turn + 1}: {clients}: {values[-1]:,.0f}/s", file=sys.stderr)
                sql.execute("truncate rowlease.queue, rowlease.queue_history, rowlease.queue_depth")
    best = max(found, key=lambda clients: statistics.median(found[clients]))
    rows = [
        [str(clients), *rates(values), f"{ratio(values, found[best]):.2f}"]
        for clients, values in found.items()
    ]
    goal = at_least("32 claimers against the best number", 0.9, ratio(found[32], found[best]))
    title = f"Requests a second that claimers of {BATCH} finish, medians of {given.runs}"
    return finish(
        Table(title, printed, ["claimers", "median", "spread", "of the best"], rows, [goal])
    )


if __name__ == "__main__":
    sys.exit(main())
