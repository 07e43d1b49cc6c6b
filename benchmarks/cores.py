"""Measures the share of the cores' time that is spent inside computing tasks.

    python -m benchmarks.cores [--tasks 2000] [--runs 5] [--dsn postgresql://...]

One worker with its default settings has a child process for each core. Each task computes for about
20 ms and returns the processor time that it used. The share is the sum of these times divided by
the time of all cores from the first claim to the last completion. The worker and PostgreSQL run on
the same cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import psycopg

from benchmarks.drain import drain_by, fill
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_least, finish
from rowlease import task
from rowlease.worker import usable_cores

#: The processor time that each task uses.
SECONDS = 0.02


@task
def computing(n: int) -> float:
    """Compute for 20 ms of processor time, and return the time that was used, in seconds."""
    began = time.process_time()
    number = n
    while (used := time.process_time() - began) < SECONDS:
        for _ in range(1000):
            number = (1103515245 * number + 12345) % 2147483648
    return used


def share(place: str, count: int) -> float:
    with database(place) as dsn:
        fill(dsn, "computing", count)
        drain_by("benchmarks.cores:computing", 1, dsn)
        with psycopg.connect(dsn) as sql:
            ((done, used, seconds),) = sql.execute(
                "select count(*), sum(result::text::float),"
                " extract(epoch from max(completion_time) - min(locked_time))::float"
                " from rowlease.queue_history where status = 'Complete'"
            ).fetchall()
    if done != count:
        raise SystemExit(f"{done} of {count} requests are complete")
    return float(used / seconds / usable_cores())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place:
        printed = described(place)
        found = [share(place, given.tasks) for _ in range(given.runs)]
    median = statistics.median(found)
    row = [
        f"{given.tasks:,} tasks of 20 ms",
        f"{median:.3f}",
        f"{min(found):.3f} to {max(found):.3f}",
    ]
    goal = at_least("share of the cores' time inside tasks of 20 ms", 0.95, median, "")
    title = f"Share of {usable_cores()} cores' time inside tasks, median of {given.runs}"
    return finish(Table(title, printed, ["", "median", "spread"], [row], [goal]))


if __name__ == "__main__":
    sys.exit(main())
