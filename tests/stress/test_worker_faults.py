"""Workers that meet every kind of bad task, and are stopped, ended and woken in the middle of it.

`ROWLEASE_STRESS_TIMES=100 pytest tests/stress/test_worker_faults.py` is the long form, and
`ROWLEASE_STRESS_RESTARTS=10000` that of the restarts; what was seen is printed (`-s` shows it).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from rowlease.events import Events
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.worker import Worker
from tests.acceptance import effect_tasks
from tests.acceptance.workers import line, worker_process
from tests.stress import bad_tasks
from tests.stress.bad_tasks import AT_ONCE
from tests.waiting import until

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
RESTARTS = int(os.environ.get("ROWLEASE_STRESS_RESTARTS", "20"))
Sql = Callable[..., list[tuple[Any, ...]]]
POISONS = {
    "segfault": "was killed by signal 11",
    "os._exit": "exited with code 0",
    "out of memory": "MemoryError",
    "endless loop": "ran past its time limit",
    "endless fork": "ran past its time limit",
    "huge result": "2097154 bytes of JSON; the limit is 1048576",
    "unpicklable result": "is not JSON",
    "unprintable exception": "Unprintable",
    "closed stdout": "nowhere to say it",
}


def say(words: str) -> None:
    sys.stdout.write(f"\n{words}\n")


def drained(store: Store, where: Store | str, **settings: Any) -> Counter[str]:
    """Work until no request is left, retries included."""
    counts: Counter[str] = Counter()
    while True:
        summary = Worker(where, bad_tasks.__name__, burst=True, events=Events(), **settings).run()
        counts.update({"crashed": summary.crashed, "claimed": summary.claimed})
        if not any(row.pending or row.scheduled or row.processing for row in store.depth()):
            return counts


@pytest.mark.timeout(300 + TIMES * 10)
def test_poison_ends_in_dead_letters_and_harms_no_bystander(store: Store, sql: Sql) -> None:
    requests = [
        request
        for _ in range(TIMES)
        for do in POISONS
        for request in (
            NewRequest(kind="harmless"),
            NewRequest(
                kind="endless" if do.startswith("endless") else "poison",
                payload=f'{{"do": "{do}"}}',
                max_attempts=2,
                retry_base=AT_ONCE,
            ),
            NewRequest(kind="harmless"),
        )
    ]
    store.enqueue_many("default", requests)
    me = psutil.Process()
    before = set(me.children(recursive=True))  # other tests have started a Java
    counts = drained(store, store, concurrency=2)
    for do, printed in POISONS.items():
        errors = sql(
            "select last_error, num_attempts from rowlease.queue"
            f" where status = 'Failed' and payload ->> 'do' = '{do}'"
        )
        assert len(errors) == TIMES, do
        assert all(printed in error for error, _ in errors), (do, errors[0])
        assert {attempts for _, attempts in errors} == {2}
    assert sql(
        "select status, num_attempts, num_crashes, count(*) from rowlease.queue_history"
        " group by 1, 2, 3"
    ) == [("Complete", 1, 0, 2 * TIMES * len(POISONS))]
    assert set(me.children(recursive=True)) <= before
    say(
        f"poison: {len(POISONS)} kinds x {TIMES}, {counts['crashed']} children lost, "
        f"{2 * TIMES * len(POISONS)} bystanders complete at their first attempt, worker alive"
    )


@pytest.mark.timeout(300 + TIMES * 10)
def test_who_was_stopped_beyond_its_lease_has_no_effect_and_is_refused_every_time(
    dsn: str, store: Store, sql: Sql, tmp_path: Path
) -> None:
    lease = timedelta(seconds=2)  # not over before the worker is stopped
    sql("create table payment (request_id bigint, by bigint)")
    owners = []
    with worker_process(dsn, tasks=effect_tasks.__name__, concurrency=1, lease=lease) as stopped:
        for turn in range(TIMES):
            gate, done = tmp_path / f"gate {turn}", tmp_path / f"done {turn}"
            os.mkfifo(gate)
            os.mkfifo(done)
            payload = json.dumps({"dsn": dsn, "gate": str(gate), "done": str(done)})
            (answer,) = store.enqueue_many(
                "default", [NewRequest(kind="pay_slowly", payload=payload)]
            )
            assert f"request_id={answer.request_id} " in line(stopped, "started request_id")
            stopped.send_signal(signal.SIGSTOP)
            while not (claim := store.dequeue("other", ["default"], 1)).requests:
                time.sleep((claim.wait or lease).total_seconds())
            (owner,) = claim.requests
            with psycopg.connect(dsn) as connection:
                connection.execute(effect_tasks.EFFECT, (owner.request_id, owner.lock_token))
                store.complete(claim.requests, ['"in time"'], connection=connection)
            owners.append((owner.request_id, owner.lock_token))
            gate.write_text("through")  # its child was not stopped, and has its own effect ready
            assert done.read_text() == "lease_lost"
            stopped.send_signal(signal.SIGCONT)
            assert f"request_id={answer.request_id} " in line(stopped, "lease lost")
    assert sql("select request_id, by from payment order by 1") == owners
    assert sql(
        "select result #>> '{}', num_attempts, count(*) from rowlease.queue_history group by 1, 2"
    ) == [("in time", 2, TIMES)]
    say(f"stopped beyond its lease, {TIMES} times: each effect once, by the owner in time")


@pytest.mark.timeout(300 + TIMES * 20)
def test_sigterm_under_load_leaves_nothing_in_processing_every_time(
    dsn: str, store: Store, sql: Sql
) -> None:
    draw = random.Random(4)
    for _ in range(TIMES):
        store.enqueue_many("default", [NewRequest(kind="brief")] * 1000)
        grace = timedelta(seconds=2)
        with worker_process(dsn, tasks=bad_tasks.__name__, concurrency=4, grace=grace) as process:
            line(process, "finished")
            time.sleep(draw.uniform(0.0, 0.5))
            process.terminate()
            line(process, "/s)")
            assert process.wait() == 0
        assert sql("select count(*) from rowlease.queue where status = 'Processing'") == [(0,)]
        assert sql("select count(*) from rowlease.worker") == [(0,)]
    assert sql("select distinct num_attempts from rowlease.requests") in (
        [(0,), (1,)],
        [(1,), (0,)],
        [(1,)],
    )
    say(f"SIGTERM under load, {TIMES} times: 0 requests left in Processing, none run twice")


@pytest.mark.timeout(300 + RESTARTS // 3)
def test_restarts_of_children_leak_nothing(dsn: str, store: Store, sql: Sql) -> None:
    me = psutil.Process()
    connected = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and backend_type = 'client backend'"
    )

    def used() -> tuple[int, int]:
        """Descriptors and processes, when the server has noticed that the workers have left."""
        until(lambda: sql(connected) == [(2,)])  # those of the test
        return me.num_fds(), len(me.children(recursive=True))

    def run(count: int) -> int:
        exits = NewRequest(kind="poison", payload='{"do": "os._exit"}', max_attempts=1)
        store.enqueue_many("default", [exits] * count)
        return drained(store, dsn, concurrency=4)["crashed"]

    assert run(10) == 10  # things that are created once exist now
    before = used()
    assert run(RESTARTS) == RESTARTS
    assert used() == before
    say(f"{RESTARTS} restarts of children: descriptors and processes as before: {before}")
