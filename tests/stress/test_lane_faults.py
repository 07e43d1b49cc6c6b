"""Drivers of a load that die at any statement, beside a worker, and a server that crashes.

`ROWLEASE_STRESS_TIMES=20 pytest -s tests/stress/test_lane_faults.py` is the long form: 500 loads.
Drivers run at once, in threads, and do by SQL what those of Spark do: their tasks write parts, are
tried again, and send late copies. What a driver does, and at which statement it dies, follows from
ROWLEASE_STRESS_SEED and the turn; in which order the statements of all arrive does not.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest

from rowlease.store import Store, open_store
from tests.stress.replicas import Seed, Server, until

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
SEED = os.environ.get("ROWLEASE_STRESS_SEED", "1")
#: Loads, and crashes of the server, for each of TIMES.
LOADS, CRASHES = 25, 4
PARTITIONS, ROWS = 3, 20
#: About as many statements as a driver makes.
STATEMENTS = 4 * PARTITIONS + 6
LOAD_LOST = "RL014"
#: A process that is another one after each crash.
CHECKPOINTER = "select pid from pg_stat_activity where backend_type = 'checkpointer'"
#: How many rows no load has, because their run or their part does not count.
LATE = """
    select count(*) from rowlease.lane r
     where not exists (select from rowlease.load l where l.run_number = r.run_number and l.in_lane)
"""
Sql = Callable[..., list[tuple[Any, ...]]]
pytestmark = pytest.mark.timeout(600 + TIMES * 120)


class Died(Exception):
    """The driver, with all its connections."""


class Driver:
    """A driver of the load, and its tasks.

    Args:
        dies_at: the statement at which it dies: its number, or what it calls.
        fault: what happens at that statement, given its connection; default: before it is sent or
            before its answer arrives, all connections are closed.

    Attributes:
        reported: `done`, `repeat`, `taken over` or `died`.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        load_id: str,
        draw: random.Random,
        dies_at: int | str | None,
        fault: Callable[[psycopg.Connection], None] | None = None,
    ) -> None:
        self.name, self.reported, self.seen = name, "died", Counter[str]()
        self._dsn, self._load_id, self._draw, self._fault = dsn, load_id, draw, fault
        self._dies_at, self._made = dies_at, -1
        self._open: list[psycopg.Connection] = []
        self._attempts, self._shares_parts = 0, draw.random() < 0.5

    def run(self) -> None:
        try:
            self._drive()
        except Died:
            self.seen["drivers died"] += 1
        except psycopg.Error as error:
            if error.sqlstate != LOAD_LOST:
                raise
            self.reported = "taken over"
        finally:
            for connection in self._open:
                connection.close()

    def _connect(self) -> psycopg.Connection:
        options = "-c synchronous_commit=on"  # what is acknowledged must survive a crash
        self._open.append(psycopg.connect(self._dsn, options=options))
        return self._open[-1]

    def _do(self, on: psycopg.Connection, text: str, *arguments: Any) -> list[tuple[Any, ...]]:
        self._made += 1
        if self._made == self._dies_at or (
            isinstance(self._dies_at, str) and self._dies_at in text
        ):
            self._dies_at = None
            if self._draw.random() < 0.5:
                on.pgconn.send_query_params(
                    psycopg.ClientCursor(on).mogrify(text, arguments).encode(), None
                )
            if self._fault:
                self._fault(on)
            raise Died
        cursor = on.execute(text, arguments)
        return [] if cursor.description is None else cursor.fetchall()

    def _drive(self) -> None:
        """As Spark does: commit if all tasks have ended well."""
        own = self._connect()
        own.autocommit = True
        begun = "select outcome, run_number from rowlease.begin_load(%s, 'default', %s)"
        ((outcome, run),) = self._do(own, begun, self._load_id, self.name)
        if outcome == "repeat":
            self.reported = "repeat"
            return
        late = self._connect()
        copied = self._draw.random() < 0.4
        if copied:
            self._write(late, run, 0, "late")
        kept = [self._task(run, partition) for partition in range(PARTITIONS)]
        promote = "select outcome, num_enqueued from rowlease.promote(%s, %s, %s, %s::bigint[])"
        number = PARTITIONS * ROWS
        for expected in ("ok", "repeat")[: self._draw.choice([1, 2])]:
            ((outcome, enqueued),) = self._do(own, promote, self._load_id, run, number, kept)
            assert (outcome, enqueued) == (expected, number)
        self.reported = "done"
        if copied:
            self.seen["late copies"] += 1
            with pytest.raises(psycopg.Error, match="is over: the load is promoted"):
                self._do(late, "commit")

    def _task(self, run: int, partition: int) -> int:
        """The part of the attempt that succeeds; some fail before their commit, some after it."""
        while True:
            on = self._connect()
            part = self._write(on, run, partition, self.name)
            fails = self._draw.choice(["", "", "", "before", "after"])
            if fails != "before":
                self._do(on, "commit")
            on.close()
            if not fails:
                return part
            self.seen["attempts failed"] += 1

    def _write(self, on: psycopg.Connection, run: int, partition: int, by: str) -> int:
        """Write the rows of a part; all attempts of some drivers write the same part."""
        self._attempts += not self._shares_parts
        part = (partition << 16) + self._attempts
        first = partition * ROWS
        for numbers in ((first, first + ROWS // 2 - 1), (first + ROWS // 2, first + ROWS - 1)):
            self._do(
                on,
                "insert into rowlease.lane (run_number, part, ends_part, priority, kind, payload)"
                " select %s, %s, n = %s, n %% 3, 'k', json_build_object('n', n, 'by', %s::text)"
                "   from generate_series(%s::integer, %s::integer) n",
                run, part, first, by, *numbers,
            )  # fmt: skip
        return part


def claims(dsn: str, draw: random.Random, is_over: threading.Event) -> None:
    """A worker that takes what it finds; some of its transactions are rolled back."""
    with psycopg.connect(dsn) as connection:
        while not is_over.is_set():
            limit = draw.choice([1, 3, 20])
            rows = connection.execute(
                "select request_id, lock_token, more"
                "  from rowlease.dequeue('w', '{default}', %s)", [limit]
            ).fetchall()  # fmt: skip
            ids, tokens = [row[0] for row in rows[:-1]], [row[1] for row in rows[:-1]]
            if ids and draw.random() < 0.5:
                connection.execute(
                    "select from rowlease.complete(%s::bigint[], %s::bigint[])", [ids, tokens]
                )
            (connection.rollback if draw.random() < 0.3 else connection.commit)()
            is_over.wait(0.002)


def check(sql: Sql, load_id: str, where: str) -> None:
    """Rows = distinct keys = one run's."""
    found = sql(
        "select count(*), count(distinct payload ->> 'n'), count(distinct payload ->> 'by'),"
        "       count(distinct request_id)"
        "  from rowlease.requests where load_id = %s",
        [load_id],
    )
    rows = PARTITIONS * ROWS
    assert found == [(rows, rows, 1, rows)], where


def test_drivers_that_die_at_any_statement_enqueue_one_runs_rows(
    dsn: str, sql: Sql, store: Store
) -> None:
    seen, began = Counter[str](), time.monotonic()
    for turn in range(TIMES * LOADS):
        where, load_id = f"seed {SEED}, turn {turn}", f"load {turn}"
        draw, is_over = random.Random(where), threading.Event()
        drivers = [
            Driver(name, dsn, load_id, random.Random(f"{where} {name}"), dies_at)
            for name in "ABC"[: draw.choice([1, 2, 2, 3])]
            for dies_at in [draw.choice([None, draw.randrange(STATEMENTS)])]
        ]
        with ThreadPoolExecutor() as threads:
            worker = threads.submit(claims, dsn, draw, is_over)
            try:
                for one in [threads.submit(driver.run) for driver in drivers]:
                    one.result()
                drivers.append(Driver("last", dsn, load_id, draw, None))
                drivers[-1].run()
            finally:
                is_over.set()
            worker.result()
        reported = {driver.name: driver.reported for driver in drivers}
        assert reported["last"] in ("done", "repeat"), f"{where}: {reported}"
        check(sql, load_id, f"{where}: {reported}")
        seen.update(f"reported {each}" for each in reported.values())
        seen["loads"] += 1
        seen[f"of {len(drivers) - 1} drivers"] += 1
        for driver in drivers:
            seen.update(driver.seen)
        if turn % 10 == 9:
            assert store.recount() == [], where
            store.maintain()
            assert sql(LATE) == [(0,)], where
    report("faults", seen, began)
    for each in ("drivers died", "attempts failed", "reported taken over", "reported repeat"):
        assert seen[each] > 0, each


def report(what: str, seen: Counter[str], began: float) -> None:
    printed = ", ".join(f"{what} {count}" for what, count in sorted(seen.items()))
    sys.stdout.write(f"\n{what}, seed {SEED}: {printed}; {time.monotonic() - began:.0f} s\n")


@pytest.fixture(scope="module")
def server(seed: Seed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(seed, tmp_path_factory.mktemp("crashes") / "server")
    yield started
    started.kill()


def started_again(server: Server, before: object) -> bool:
    try:
        return server.ask(CHECKPOINTER) not in (before, [])
    except psycopg.OperationalError:
        return False


def test_what_a_crash_of_the_server_interrupts_is_whole_or_nothing(server: Server) -> None:
    """A backend is killed, at drawn statements and most often in the promotion."""
    seen, began = Counter[str](), time.monotonic()
    for turn in range(TIMES * CRASHES):
        where, load_id = f"seed {SEED}, turn {turn}", f"load {turn}"
        draw = random.Random(where)

        def crash(on: psycopg.Connection, pause: float = draw.uniform(0, 0.006)) -> None:
            time.sleep(pause)
            os.kill(on.info.backend_pid, signal.SIGKILL)

        before = server.ask(CHECKPOINTER)
        in_promotion = draw.random() < 0.7
        dies_at = "rowlease.promote" if in_promotion else draw.randrange(STATEMENTS)
        first = Driver("first", server.dsn, load_id, draw, dies_at, crash)
        first.run()
        if first.seen["drivers died"]:
            until("the server is there again", partial(started_again, server, before))
        last = Driver("last", server.dsn, load_id, draw, None)
        last.run()
        assert last.reported in ("done", "repeat"), where
        with psycopg.connect(server.dsn) as connection:
            check(lambda *given: connection.execute(*given).fetchall(), load_id, where)
        seen.update([f"first {first.reported}", f"last {last.reported}", "loads"])
    with closing(open_store(server.dsn)) as store:
        assert store.recount() == []
    report("crashes", seen, began)
