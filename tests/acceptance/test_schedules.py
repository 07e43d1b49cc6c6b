"""Schedules with real workers, of which one dies at the worst moment.

The database's clock is stopped; only the test moves it, and nothing sleeps.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowlease.store import Store
from rowlease.testing import Clock, frozen
from tests.acceptance import schedule_tasks
from tests.acceptance.workers import line, worker_process
from tests.waiting import PAUSE

Sql = Callable[..., list[tuple[Any, ...]]]
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@contextmanager
def worker(dsn: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that looks for schedules often."""
    often = "from rowlease.worker import housekeeping as h; h.SCHEDULE_CHECK_SECONDS = 0.1"
    with worker_process(
        dsn, schedule_tasks.__name__, before=often, queues=["bounded"], concurrency=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            assert process.stdout is not None
            sys.stdout.write(process.stdout.read())  # which pytest shows if the test fails


def until(sql: Sql, query: str) -> list[tuple[Any, ...]]:
    """Ask until there is an answer; for 30 seconds."""
    give_up = time.monotonic() + 30
    while not (found := sql(query)):
        if time.monotonic() > give_up:
            pytest.fail(f"{query}: {sql(STATE)}")
        time.sleep(PAUSE)
    return found


@contextmanager
def passing(clock: Clock) -> Iterator[None]:
    """Move the database's clock five times as fast as the host's, so that every lease runs out."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(0.2):
            clock.advance(seconds=1)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


STATE = (
    "select s.*, (select jsonb_agg(q) from rowlease.requests q),"
    " (select jsonb_agg(a.query) from pg_stat_activity a where a.datname = current_database())"
    " from rowlease.schedule s"
)
WAITS = (
    "select a.pid from pg_stat_activity a"
    " where a.datname = current_database() and cardinality(pg_blocking_pids(a.pid)) > 0"
    "   and a.query like '%fire_schedule%'"
)


@pytest.mark.parametrize("commits", [False, True], ids=["its word is lost", "its word arrives"])
def test_a_worker_killed_while_it_fires_is_followed_by_another(
    dsn: str, store: Store, sql: Sql, commits: bool
) -> None:
    store.configure_queue("bounded", capacity=100)
    with ExitStack() as stack:
        clock = stack.enter_context(frozen(store, NOON))
        processes = {}
        for _ in range(2):
            process = stack.enter_context(worker(dsn))
            line(process, "worker started")
            processes[process.pid] = process
        until(sql, "select 1 from rowlease.schedule where next_time is not null")
        for hour in range(1, 3):
            with psycopg.connect(dsn) as blocker:
                # A worker that fires waits here, with the schedule leased.
                blocker.execute("select 1 from rowlease.queue_settings"
                                " where queue_name = 'bounded' for update")  # fmt: skip
                clock.advance(HOUR)
                ((backend,),) = until(sql, WAITS)
                ((leader,),) = sql("select locked_by from rowlease.schedule")
                pid = int(leader.split(":")[1])
                processes[pid].send_signal(signal.SIGKILL)
                processes.pop(pid).wait()
                if not commits:
                    sql("select pg_terminate_backend(%s, 5000)", [backend])
            scheduled = f"{NOON + hour * HOUR:%Y-%m-%dT%H:%M:%SZ}"
            clock.advance(seconds=10)  # the schedule's lease
            with passing(clock):
                until(
                    sql,
                    f"select 1 from rowlease.queue_history where result #>> '{{}}' = '{scheduled}'",
                )
            clock.move_to(NOON + hour * HOUR)
            process = stack.enter_context(worker(dsn))  # and another takes its place
            line(process, "worker started")
            processes[process.pid] = process
        assert sql("select dedup_key from rowlease.requests order by 1") == [
            (f"tick@2030-01-01T{12 + hour}:00:00Z",) for hour in (1, 2)
        ]
        ((next_time,),) = sql("select next_time from rowlease.schedule")
        assert next_time == NOON + 3 * HOUR
