"""How does the cost of a claim depend on the size of the queue?

    python -m benchmarks.claims [--pending 1000000,10000000] [--claims 1000] [--runs 5]
                                [--dsn postgresql://...]

On queues of different depth in turns, ten requests are repeatedly claimed and completed, and ten
others enqueued; only the claim is timed. One queue has 1,000 pending requests and nothing else. The
others have millions of pending requests, and requests that a wrong index would have to pass over:
300,000 scheduled, 300,000 in flight and 1,000,000 dead letters, all of the highest priority.
Commits do not wait for the disk, so that they do not hide the cost of a claim.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg

from benchmarks.filling import fill
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, at_most, finish, ratio, times
from rowlease.model import NewRequest
from rowlease.store import Store, open_store

CLAIMED = 10
FEW = 1_000
CROWD = {"scheduled": 300_000, "in_flight": 300_000, "dead": 1_000_000}
#: Claims on one queue before the turn of the next.
TURN = 100


class Queue:
    """A queue of constant depth whose claims are timed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._floor: str | None = None

    def claims(self, count: int) -> list[float]:
        """Make some claims; return the milliseconds that each took."""
        took = []
        for turn in range(count):
            began = time.perf_counter()
            claim = self._store.dequeue("bench", ["default"], CLAIMED, floor=self._floor)
            took.append(1000 * (time.perf_counter() - began))
            assert len(claim.requests) == CLAIMED
            self._floor = claim.floor
            self._store.complete(claim.requests)
            more = [NewRequest(kind="noop", priority=(turn + n) % 10) for n in range(CLAIMED)]
            self._store.enqueue_many("default", more)
        return took


@contextmanager
def queue(place: str, pending: int, crowd: dict[str, int]) -> Iterator[Queue]:
    with database(place) as dsn:
        fill(dsn, pending, **crowd)
        as_in_use(dsn)
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(f"alter database {sql.info.dbname} set synchronous_commit = off")
        with closing(open_store(dsn)) as store:
            yield Queue(store)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--pending", default="1000000,10000000", help="depths of the crowded queues"
    )
    parser.add_argument("--claims", type=int, default=1000, help="on each queue, in each run")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    few = f"{FEW:,} pending"
    crowded = {
        f"{int(each):,} pending and the crowd": int(each) for each in given.pending.split(",")
    }
    medians: dict[str, list[float]] = {name: [] for name in (few, *crowded)}
    slowest: dict[str, list[float]] = {name: [] for name in (few, *crowded)}
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        printed = described(place)
        queues = {few: stack.enter_context(queue(place, FEW, {}))}
        for name, pending in crowded.items():
            queues[name] = stack.enter_context(queue(place, pending, CROWD))
        for each in queues.values():  # caches and plans
            each.claims(TURN)
        for _ in range(given.runs):
            took: dict[str, list[float]] = {name: [] for name in queues}
            for _ in range(0, given.claims, TURN):
                for name, each in queues.items():
                    took[name] += each.claims(TURN)
            for name, values in took.items():
                medians[name].append(statistics.median(values))
                slowest[name].append(sorted(values)[int(0.99 * len(values))])
    rows = []
    goals = []
    for name in queues:
        against = ratio(medians[name], medians[few])
        rows.append([name, *times(medians[name]), times(slowest[name])[0], f"{against:.2f}"])
        if name != few:
            goals.append(at_most(f"claim at {name} against {few}", 1.3, against, "x"))
    title = f"A claim of {CLAIMED}, medians of {given.runs} runs of {given.claims:,} claims each"
    columns = ["", "p50", "spread", "p99", f"p50, of {few}"]
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
