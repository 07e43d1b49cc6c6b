"""How much processor time does a call cost the server?

    python -m benchmarks.server_cost [--runs 9] [--before CHECKOUT] [--dsn postgresql://...]

It measures the processor time of the one backend that serves the calls, as Linux accounts for it in
nanoseconds; waits do not count. Each call is measured by itself, and a run takes the median of its
calls. The calls are made in turns on rowlease, on the smallest prototype of each (prototype.sql),
and with --before also on the routines of another checkout. The server must be on this machine. An
exchange completes as many requests as it claims.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks.filling import PENDING, fill
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Table, at_most, commit_of, finish, ratio, times
from rowlease.store.postgresql.scratch import scratch_database

HERE = Path(__file__).parent
#: How many requests still wait after the last run.
ROWS_LEFT = 10_000
#: The sizes of claims, and how many claims of each size a run makes.
CLAIMS = {1: 60, 10: 40, 100: 15}
#: At most this many times the processor time of the prototype.
GOALS = {
    "dequeue of 1": 1.8,
    "dequeue of 10": 1.5,
    "dequeue of 100": 1.25,
    "complete of 1": 1.5,
    "complete of 100": 1.15,
}
EMPTY_CLAIMS = 60
#: Calls that enqueue, and their requests. The last is what a client calls.
ENQUEUES = {"enqueue": (1,), "enqueue_many": (1, 100), "enqueue_many with a receipt": (1, 100)}
Held = tuple[list[int], list[int]]


class Subject:
    """A database whose calls are measured on one connection.

    Args:
        calls: the statements `dequeue`, `complete` and `exchange`, and those of ENQUEUES that it
            has.
    """

    def __init__(self, dsn: str, table: str, calls: dict[str, str]) -> None:
        self._sql = psycopg.connect(dsn, autocommit=True, prepare_threshold=1)
        self._sql.execute("set synchronous_commit = off")
        self._table = table
        self._calls = calls
        self._times = Path(f"/proc/{self._sql.info.backend_pid}/schedstat")

    def run(self) -> dict[str, float]:
        """The median microseconds of each kind of call."""
        took: dict[str, list[float]] = {}
        for size, count in CLAIMS.items():
            for _ in range(count):
                claim, held = self._timed(partial(self._dequeue, size))
                assert len(held[0]) == size
                done, _ = self._timed(partial(self._complete, held))
                took.setdefault(f"dequeue of {size}", []).append(claim)
                took.setdefault(f"complete of {size}", []).append(done)
            held = self._dequeue(size)
            for _ in range(count):
                both, held = self._timed(partial(self._exchange, held))
                assert len(held[0]) == size
                took.setdefault(f"exchange of {size}", []).append(both)
            self._complete(held)
        for call, sizes in ENQUEUES.items():
            for size in sizes if call in self._calls else ():
                each = partial(self._enqueue, call, size)
                took[f"{call} of {size}"] = [
                    self._timed(each)[0] for _ in range(60 if size == 1 else 15)
                ]
        with self._nothing_pending():
            took["dequeue that finds nothing"] = [
                self._timed(partial(self._dequeue, 10))[0] for _ in range(EMPTY_CLAIMS)
            ]
        return {name: statistics.median(values) for name, values in took.items()}

    def close(self) -> None:
        self._sql.close()

    def _timed(self, call: Callable[[], Any]) -> tuple[float, Any]:
        before = self._spent()
        answer = call()
        return self._spent() - before, answer

    def _spent(self) -> float:
        return int(self._times.read_text().split()[0]) / 1000

    def _dequeue(self, size: int) -> Held:
        return self._claimed("dequeue", (size,))

    def _exchange(self, held: Held) -> Held:
        return self._claimed("exchange", (len(held[0]), *held))

    def _claimed(self, call: str, arguments: tuple[Any, ...]) -> Held:
        rows = self._sql.execute(self._calls[call], arguments, binary=True).fetchall()
        held = [(row[0], row[8]) for row in rows if row[8] is not None]
        return [one for one, _ in held], [token for _, token in held]

    def _complete(self, held: Held) -> None:
        self._sql.execute(self._calls["complete"], held, binary=True).fetchall()

    def _enqueue(self, call: str, size: int) -> None:
        given = {"kinds": ["noop"] * size, "payloads": ['{"n":1}'] * size, "receipt": uuid4().hex}
        self._sql.execute(self._calls[call], given).fetchall()

    @contextmanager
    def _nothing_pending(self) -> Iterator[None]:
        self._move("Pending", "Scheduled", "+")
        yield
        self._move("Scheduled", "Pending", "-")

    def _move(self, old: str, new: str, sign: str) -> None:
        self._sql.execute(
            f"update {self._table} set status = '{new}',"
            f" due_time = due_time {sign} interval '1 day' where status = '{old}'"
        )
        self._sql.execute(f"vacuum {self._table}")
        self._dequeue(1)  # caches and plans


REQUEST = (
    "request_id, queue_name, kind, priority, requested_time, due_time, locked_time,"
    " lock_expires_time, lock_token, num_attempts, max_attempts, num_crashes, group_key, load_id,"
    " payload"
)
ROWLEASE = {
    "dequeue": f"select {REQUEST}, more, wait_ms, floor"
    " from rowlease.dequeue('bench', array['default'], %s)",
    "complete": "select * from rowlease.complete(%s::bigint[], %s::bigint[])",
    "exchange": f"select {REQUEST}, more, wait_ms, floor, dead, outcome"
    " from rowlease.exchange('bench', array['default'], %s, p_complete_ids => %s::bigint[],"
    " p_complete_tokens => %s::bigint[])",
    "enqueue": "select * from rowlease.enqueue('default', 'noop', p_payload => '{\"n\":1}')",
    "enqueue_many": "select * from rowlease.enqueue_many('default', %(kinds)s::text[],"
    " %(payloads)s::text[], p_in_transaction => false)",
    "enqueue_many with a receipt": "select * from rowlease.enqueue_many('default',"
    " %(kinds)s::text[], %(payloads)s::text[], p_receipt_key => %(receipt)s,"
    " p_in_transaction => false)",
}
PROTOTYPE = {
    "dequeue": f"select {REQUEST} from prototype.dequeue('bench', 'default', %s)",
    "complete": "select * from prototype.complete(%s::bigint[], %s::bigint[])",
    "exchange": f"select {REQUEST} from prototype.exchange('bench', 'default', %s, %s::bigint[],"
    " %s::bigint[])",
    "enqueue": "insert into prototype.queue (queue_name, kind, status, priority, requested_time,"
    " due_time, max_attempts, payload)"
    " values ('default', 'noop', 'Pending', 0, now(), now(), 5, '{\"n\":1}') returning request_id",
    "enqueue_many": "select * from prototype.enqueue_many('default', %(kinds)s::text[],"
    " %(payloads)s::text[])",
}


@contextmanager
def rowlease(place: str, rows: int) -> Iterator[Subject]:
    with database(place) as dsn:
        yield from filled(dsn, rows)


@contextmanager
def another(place: str, rows: int, checkout: str) -> Iterator[Subject]:
    """The routines of another checkout, which its own code puts there."""
    with scratch_database(place) as dsn:
        subprocess.run(
            [sys.executable, "-c", "import sys, rowlease.store as s; s.migrate(sys.argv[1])", dsn],
            env={**os.environ, "PYTHONPATH": str(Path(checkout, "src"))},
            check=True,
        )
        yield from filled(dsn, rows)


def filled(dsn: str, rows: int) -> Iterator[Subject]:
    fill(dsn, rows)
    as_in_use(dsn)
    subject = Subject(dsn, "rowlease.queue", ROWLEASE)
    yield subject
    subject.close()


@contextmanager
def prototype(place: str, rows: int) -> Iterator[Subject]:
    with database(place) as dsn:
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute((HERE / "prototype.sql").read_text())
            sql.execute(PENDING.replace("rowlease.queue", "prototype.queue"), (rows,))
        as_in_use(dsn)
        subject = Subject(dsn, "prototype.queue", PROTOTYPE)
        yield subject
        subject.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--before", metavar="CHECKOUT", help="a checkout to compare with")
    add_dsn(parser)
    given = parser.parse_args()
    claimed = sum(size * (2 * count + 1) for size, count in CLAIMS.items())
    rows = ROWS_LEFT + (1 + given.runs) * claimed
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        said = described(place)
        subjects = {"rowlease": stack.enter_context(rowlease(place, rows))}
        if given.before:
            subjects["before"] = stack.enter_context(another(place, rows, given.before))
        subjects["prototype"] = stack.enter_context(prototype(place, rows))
        for each in subjects.values():  # caches and plans
            each.run()
        found: dict[str, dict[str, list[float]]] = {}
        for run in range(given.runs):
            for name in sorted(subjects, reverse=bool(run % 2)):
                for call, took in subjects[name].run().items():
                    found.setdefault(call, {}).setdefault(name, []).append(took)
    lines = []
    others = [name for name in subjects if name != "rowlease"]
    for call, by_name in found.items():
        row = [call]
        for name in subjects:
            row += times(by_name[name], "µs") if name in by_name else ("", "")
        for name in others:
            row.append(
                f"{ratio(by_name['rowlease'], by_name[name]):.2f}" if name in by_name else ""
            )
        lines.append(row)
    columns = ["call", *(text for name in subjects for text in (name, "spread"))]
    columns += [f"rowlease, of {name}" for name in others]
    title = f"Processor time of the server for one call, medians of {given.runs} runs"
    goals = [
        at_most(
            f"{call}, server's time, against the prototype",
            wanted,
            ratio(found[call]["rowlease"], found[call]["prototype"]),
            "x",
        )
        for call, wanted in GOALS.items()
    ]
    notes = [f"Before is {commit_of(given.before)}."] if given.before else []
    return finish(Table(title, said, columns, lines, goals, notes))


if __name__ == "__main__":
    sys.exit(main())
