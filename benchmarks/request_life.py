"""What does a request cost the server, from its enqueue to its row in the history?

    python -m benchmarks.request_life [--requests 20000] [--runs 5] [--dsn postgresql://...]

One connection enqueues requests with a payload of 100 bytes, claims them and completes them, in
batches of 1, 10, 100 and 1,000; a run takes each size in turn. It counts the processor time of the
backend, as Linux accounts for it, and the bytes of WAL that the server has written in between.
The first batches are not counted. What follows for larger machines is in docs/scaling.md. The
server must be on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg

from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, finish

BATCHES = (1, 10, 100, 1_000)
PAYLOAD = '{"text":"' + "x" * 89 + '"}'
STEPS = ("enqueue", "claim", "complete")


class Cost(NamedTuple):
    """Of one request.

    Attributes:
        time: processor time of the backend, in microseconds.
        wal: bytes.
    """

    time: float
    wal: float


class Life:
    """One connection to a database, and the costs of what it does."""

    def __init__(self, dsn: str) -> None:
        self._sql = psycopg.connect(dsn, autocommit=True, prepare_threshold=1)
        self._times = Path(f"/proc/{self._sql.info.backend_pid}/schedstat")

    def run(self, batch: int, requests: int) -> dict[str, Cost]:
        """The costs of each step, in batches of one size."""
        times: dict[str, float] = dict.fromkeys(STEPS, 0.0)
        written: dict[str, float] = dict.fromkeys(STEPS, 0.0)
        count = max(1, requests // batch)
        for step, call in (("enqueue", self._enqueue), ("claim", self._claim)):
            call(batch)  # plans
            times[step], written[step] = self._measured(call, batch, count)
        held = self._sql.execute(
            "select request_id, lock_token from rowlease.queue where status = 'Processing'"
            " order by request_id"
        ).fetchall()
        batches = [held[start : start + batch] for start in range(0, count * batch, batch)]
        self._complete(held[count * batch :])
        waiting = iter(batches)
        times["complete"], written["complete"] = self._measured(
            lambda _: self._complete(next(waiting)), batch, count
        )
        done = count * batch
        return {step: Cost(times[step] / done, written[step] / done) for step in STEPS}

    def bytes_of(self, table: str) -> int:
        ((size,),) = self._sql.execute(
            "select sum(pg_total_relation_size(relid)) from pg_partition_tree(%s::regclass)",
            (table,),
        ).fetchall()
        return int(size)

    def vacuum(self) -> None:
        self._sql.execute("vacuum rowlease.queue")
        self._sql.execute("vacuum rowlease.queue_depth")

    def close(self) -> None:
        self._sql.close()

    def _measured(self, call: Callable[[int], Any], batch: int, count: int) -> tuple[float, float]:
        wal, time = self._wal(), self._spent()
        for _ in range(count):
            call(batch)
        return self._spent() - time, self._wal() - wal

    def _spent(self) -> float:
        return int(self._times.read_text().split()[0]) / 1000

    def _wal(self) -> int:
        ((position,),) = self._sql.execute(
            "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
        ).fetchall()
        return int(position)

    def _enqueue(self, batch: int) -> None:
        given = {"kinds": ["noop"] * batch, "payloads": [PAYLOAD] * batch, "receipt": uuid4().hex}
        self._sql.execute(
            "select * from rowlease.enqueue_many('default', %(kinds)s::text[],"
            " %(payloads)s::text[], p_receipt_key => %(receipt)s, p_in_transaction => false)",
            given,
        ).fetchall()

    def _claim(self, batch: int) -> None:
        self._sql.execute(
            "select * from rowlease.dequeue('bench', array['default'], %s)", (batch,)
        ).fetchall()

    def _complete(self, held: list[tuple[Any, ...]]) -> None:
        ids, tokens = [each for each, _ in held], [token for _, token in held]
        self._sql.execute(
            "select * from rowlease.complete(%s::bigint[], %s::bigint[])", (ids, tokens)
        ).fetchall()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000, help="of each size, in each run")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[int, list[dict[str, Cost]]] = {batch: [] for batch in BATCHES}
    with server(given.dsn) as place, database(place) as dsn:
        settings = described(place)
        life = Life(dsn)
        as_in_use(dsn)
        for batch in BATCHES:
            life.run(batch, batch)
        empty = life.bytes_of("rowlease.queue_history")
        for _ in range(given.runs):
            for batch in BATCHES:
                life.vacuum()
                found[batch].append(life.run(batch, given.requests))
        kept = life.bytes_of("rowlease.queue_history") - empty
        life.close()
    rows = []
    for batch, runs in found.items():
        row = [f"{batch:,}"]
        for step in STEPS:
            time = statistics.median(run[step].time for run in runs)
            wal = statistics.median(run[step].wal for run in runs)
            row.append(f"{time:,.1f} µs, {wal:,.0f} B")
        time = statistics.median(sum(cost.time for cost in run.values()) for run in runs)
        wal = statistics.median(sum(cost.wal for cost in run.values()) for run in runs)
        row += [f"{time:,.1f} µs", f"{wal:,.0f} B", f"{3 / batch:g}"]
        rows.append(row)
    done = sum(given.runs * (max(1, given.requests // batch) + 1) * batch for batch in BATCHES)
    columns = ["batch", *STEPS, "processor time", "WAL", "round trips and commits"]
    title = f"Cost of one request by the size of batches, medians of {given.runs} runs"
    note = f"A finished request takes {kept / done:,.0f} bytes of the history, with its indexes."
    return finish(Table(title, settings, columns, rows, notes=[note]))


if __name__ == "__main__":
    sys.exit(main())
