"""How fast are claims under an old snapshot, compared with a fresh queue?

    python -m benchmarks.horizon [--finished 200000] [--lane] [--runs 3] [--dsn postgresql://...]

While a transaction with an old snapshot is open (REPEATABLE READ: a report, a dump), the database
cannot remove finished requests, and every index keeps entries for them. The benchmark fills two
queues alike, opens such a transaction on one of them, finishes many requests there, and waits until
their leases would have run out. Then it claims and completes on both in turns of a few seconds, so
that other load on the machine affects both. It prints the rates and their ratio. With --lane the
requests are of a promoted load, and claims take them from the lane.

The databases are created for the benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import NamedTuple

import psycopg

from benchmarks import lane
from benchmarks.filling import fill
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, at_least, finish, rates
from rowlease.store import Store, open_store

#: The smallest ratio of the two rates.
GOAL = 0.8
LEASE = timedelta(seconds=5)
BATCH = 10
#: Seconds of each turn of a queue.
TURN = 3.0
TURNS = 4


class Rate(NamedTuple):
    """Claims of ten requests per second, by the time of the claims and with that of completions."""

    claims: float
    whole: float


class Worker:
    """Claims and completes on one queue, and keeps the floor between claims."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._floor: str | None = None
        self.claims = 0
        self.claiming = 0.0
        self.working = 0.0

    def work(self, *, batch: int, seconds: float = 1e9, count: int = 10**12) -> None:
        began = time.perf_counter()
        done = 0
        while done < count and time.perf_counter() - began < seconds:
            start = time.perf_counter()
            claim = self._store.dequeue("one", ["default"], batch, lease=LEASE, floor=self._floor)
            self.claiming += time.perf_counter() - start
            self._floor = claim.floor
            assert len(claim.requests) == batch, "the queue ran empty; fill it with more"
            self._store.complete(claim.requests)
            self.claims += 1
            done += batch
        self.working += time.perf_counter() - began

    def rate(self) -> Rate:
        """The rates since the last call."""
        found = Rate(self.claims / self.claiming, self.claims / self.working)
        self.claims, self.claiming, self.working = 0, 0.0, 0.0
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--finished", type=int, default=200_000, help="requests under the snapshot")
    parser.add_argument("--lane", action="store_true", help="requests of a load, in the lane")
    parser.add_argument("--runs", type=int, default=3)
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place:
        printed = described(place)
        runs = [
            run(place, given.finished, number, in_lane=given.lane)
            for number in range(1, given.runs + 1)
        ]
    fresh, held = zip(*runs, strict=True)
    claims = [one.claims / other.claims for other, one in runs]
    whole = [one.whole / other.whole for other, one in runs]
    rows = [
        ["claims", *rates([r.claims for r in fresh]), *rates([r.claims for r in held])],
        [
            "claims and completing",
            *rates([r.whole for r in fresh]),
            *rates([r.whole for r in held]),
        ],
    ]
    for row, values in zip(rows, (claims, whole), strict=True):
        row.append(f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
    where = " from the lane" if given.lane else ""
    title = (
        f"Claims of {BATCH} a second{where} after"
        f" {given.finished:,} requests were finished under a held snapshot,"
        f" leases of {LEASE.total_seconds():g} s, medians of {given.runs}"
    )
    columns = ["", "fresh", "spread", "snapshot held", "spread", "ratio"]
    goal = at_least(f"claims{where} under a held snapshot", GOAL, statistics.median(claims))
    kept_as = "horizon_lane" if given.lane else ""
    note = "Commits do not wait for the disk here, so that nothing hides what a claim costs."
    return finish(Table(title, printed, columns, rows, [goal], [note], kept_as))


def run(dsn: str, finished: int, number: int, *, in_lane: bool) -> tuple[Rate, Rate]:
    with (
        queue(dsn, 250_000, in_lane) as fresh_dsn,
        queue(dsn, finished + 250_000, in_lane) as held_dsn,
        ExitStack() as s,
    ):
        fresh = Worker(s.enter_context(closing(open_store(fresh_dsn))))
        held = Worker(s.enter_context(closing(open_store(held_dsn))))
        report = s.enter_context(psycopg.connect(held_dsn))
        report.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        report.execute("select count(*) from rowlease.worker")
        held.work(batch=100, count=finished)
        time.sleep(LEASE.total_seconds())
        for worker in (fresh, held):  # caches and plans
            worker.work(batch=BATCH, seconds=1)
            worker.rate()
        for _ in range(TURNS):
            for worker in (fresh, held):
                worker.work(batch=BATCH, seconds=TURN)
        found = fresh.rate(), held.rate()
    (fast, fast_whole), (slow, slow_whole) = found
    print(
        f"{number:>4} {fast:>16.0f} {slow:>16.0f} {slow / fast:>7.2f}"
        f" {fast_whole:>11.0f} {slow_whole:>12.0f} {slow_whole / fast_whole:>7.2f}",
        flush=True,
    )
    return found


@contextmanager
def queue(place: str, waiting: int, in_lane: bool) -> Iterator[str]:
    """A database with a number of requests of ten priorities; it is dropped at the end."""
    with database(place) as dsn:
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(f"alter database {sql.info.dbname} set synchronous_commit = off")
        if in_lane:
            with psycopg.connect(dsn, autocommit=True) as sql:
                lane.load(dsn, sql, "lane", waiting)
            as_in_use(dsn)
        else:
            fill(dsn, waiting)
        yield dsn


if __name__ == "__main__":
    sys.exit(main())
