"""Sixteen connections, many requests, and an operator who cuts connections at random.

`ROWLEASE_STRESS_REQUESTS=100000 pytest tests/stress` is the long form; what was measured is printed
at the end (`-s` shows it).
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlease.errors import LeaseLost, StoreError
from rowlease.model import LeasedRequest, NewRequest
from rowlease.store import open_store

LONG = os.environ.get("ROWLEASE_STRESS_REQUESTS")
REQUESTS = int(LONG or "8000")
CONNECTIONS = 16
BATCH = 10
#: Short, because every lease that a cut connection leaves behind must run out before the end.
LEASE = timedelta(seconds=2)
#: Seconds between two cuts, on average.
CUT_EVERY = 0.05
#: Seconds: the promise in a measurement, and far more beside other work.
LONGEST_LOCK_WAIT = 0.1 if LONG else 1.0
#: Seconds between two checks for lock waits.
LOOK_EVERY = 0.005


@dataclass
class Seen:
    """What the threads saw."""

    stop: threading.Event = field(default_factory=threading.Event)
    cuts: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Seconds that each wait took, as far as the one it waited for was at work in the database; a
    #: client that thinks in mid-transaction is this test, not the routines.
    waits: dict[tuple[Any, ...], float] = field(default_factory=lambda: defaultdict(float))
    #: How much later than it should the watcher itself came to look: what a busy machine adds.
    late: float = 0.0


class Worker:
    """Takes and finishes requests; every second one with an effect in the same transaction."""

    def __init__(self, dsn: str, number: int, seen: Seen) -> None:
        self.name = f"worker {number}"
        self.has_effects = number % 2 == 1
        self.dsn = dsn
        self.seen = seen
        self.holds: list[LeasedRequest] = []
        self.floor: str | None = None

    def run(self) -> None:
        with closing(open_store(self.dsn, application_name="stress worker")) as store:
            while not self.seen.stop.is_set():
                try:
                    self._take(store) if not self.holds else self._finish(store)
                except (StoreError, psycopg.Error) as error:
                    # Its fate is unknown; requests that are still held are finished again.
                    self.seen.errors[type(error).__name__] += 1

    def _take(self, store: Any) -> None:
        claim = store.dequeue(self.name, ["default"], BATCH, lease=LEASE, floor=self.floor)
        self.holds, self.floor = claim.requests, claim.floor
        if not claim.requests and not store.depth():
            self.seen.stop.set()

    def _finish(self, store: Any) -> None:
        if self.has_effects:
            try:
                with psycopg.connect(self.dsn, application_name="stress worker") as connection:
                    connection.cursor().executemany(
                        "insert into effect values (%s)",
                        [(request.request_id,) for request in self.holds],
                    )
                    outcomes = store.complete(self.holds, connection=connection)
                self.holds = []
            except LeaseLost as error:
                # Its effect was committed before, or is another's: only the rest is tried again.
                outcomes = [error.outcome]
                self.holds = [one for one in self.holds if one.request_id != error.request_id]
        else:
            answer = store.exchange(
                self.name,
                ["default"],
                BATCH,
                completed=[(request, None) for request in self.holds],
                lease=LEASE,
                floor=self.floor,
            )
            outcomes = answer.completed
            self.holds, self.floor = answer.claim.requests, answer.claim.floor
        self.seen.outcomes.update(str(outcome) for outcome in outcomes)


def cut(dsn: str, seen: Seen, seed: int) -> None:
    """Ends a connection of some worker, again and again."""
    draw = random.Random(seed)
    with psycopg.connect(dsn, autocommit=True) as operator:
        while not seen.stop.wait(draw.expovariate(1 / CUT_EVERY)):
            found = operator.execute(
                "select pid from pg_stat_activity where datname = current_database()"
                " and application_name = 'stress worker'"
            ).fetchall()
            if found:
                operator.execute("select pg_terminate_backend(%s)", draw.choice(found))
                seen.cuts += 1


def watch(dsn: str, seen: Seen) -> None:
    """Records sessions that wait for a lock, and how long."""
    with psycopg.connect(dsn, autocommit=True) as observer:
        looked = time.monotonic()
        while not seen.stop.wait(LOOK_EVERY):
            waiting = observer.execute(
                "select a.pid, l.waitstart, l.locktype || ' ' || a.query"
                "  from pg_locks l join pg_stat_activity a using (pid)"
                " where not l.granted and l.waitstart is not null"
                "   and a.datname = current_database() and a.application_name = 'stress worker'"
                "   and not exists (select from pg_stat_activity b"
                "                    where b.pid = any (pg_blocking_pids(a.pid))"
                "                      and b.state <> 'active')"
            ).fetchall()
            now = time.monotonic()
            for each in waiting:
                seen.waits[each] += now - looked
            seen.late = max(seen.late, now - looked - LOOK_EVERY)
            looked = now


@contextmanager
def deadlocks(dsn: str) -> Any:
    def counted() -> int:
        with psycopg.connect(dsn) as connection:
            ((count,),) = connection.execute(
                "select deadlocks from pg_stat_database where datname = current_database()"
            ).fetchall()
            return int(count)

    before = counted()
    found: list[int] = []
    yield found
    found.append(counted() - before)


@pytest.mark.timeout(300 + REQUESTS // 20)
def test_every_request_is_completed_exactly_once_whatever_is_cut_off(dsn: str) -> None:
    seen = Seen()
    groups = [None] * 7 + [f"group {number}" for number in range(40)]
    draw = random.Random(16)
    with closing(open_store(dsn)) as store, psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute("create table effect (request_id bigint)")
        store.configure_queue("default", max_attempts=1_000_000, max_crashes=1_000_000)
        for _ in range(0, REQUESTS, 500):
            batch = [
                NewRequest(kind="a", priority=draw.randrange(10), group_key=draw.choice(groups))
                if draw.random() < 0.3
                else NewRequest(kind="a", priority=draw.randrange(10))
                for _ in range(500)
            ]
            store.enqueue_many("default", batch)
        total = -(-REQUESTS // 500) * 500
        started = time.monotonic()
        with deadlocks(dsn) as locked, ThreadPoolExecutor(CONNECTIONS + 2) as pool:
            calls = [pool.submit(Worker(dsn, n, seen).run) for n in range(CONNECTIONS)]
            calls += [pool.submit(cut, dsn, seen, 16), pool.submit(watch, dsn, seen)]
            try:
                for call in calls:
                    call.result()
            finally:
                seen.stop.set()
        seconds = time.monotonic() - started
        longest = max(((took, what) for (*_, what), took in seen.waits.items()), default=(0.0, ""))
        sys.stdout.write(
            f"\n{total} requests, {CONNECTIONS} connections, {seconds:.1f} s:"
            f" {total / seconds:.0f} a second; {seen.cuts} connections cut;"
            f" longest lock wait seen {longest[0] * 1000:.0f} ms"
            f" ({longest[1][:60]}), with up to {seen.late * 1000:.0f} ms"
            " that the machine itself was late;"
            f" deadlocks {locked}; outcomes {dict(seen.outcomes)}; errors {dict(seen.errors)}\n"
        )
        assert seen.cuts > 0
        assert locked == [0]
        assert longest[0] <= LONGEST_LOCK_WAIT + seen.late, longest
        history = sql.execute(
            "select request_id, status, locked_by, group_key from rowlease.queue_history"
            " order by completion_time"
        ).fetchall()
        assert sql.execute("select count(*) from rowlease.queue").fetchall() == [(0,)]
        assert store.depth() == []
        assert len(history) == len({request_id for request_id, *_ in history}) == total
        assert {status for _, status, *_ in history} == {"Complete"}
        effects = [request_id for (request_id,) in sql.execute("select * from effect").fetchall()]
        with_effects = {f"worker {number}" for number in range(1, CONNECTIONS, 2)}
        assert sorted(effects) == sorted(r for r, _, by, _ in history if by in with_effects)
        for group in filter(None, groups):
            done = [request_id for request_id, *_, of in history if of == group]
            assert done == sorted(done)
