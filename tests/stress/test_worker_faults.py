"""Workers that meet every kind of bad task, and are stopped, ended and woken in the middle of it.

`ROWLEASE_STRESS_TIMES=100 pytest tests/stress/test_worker_faults.py` is the long form, and
`ROWLEASE_STRESS_RESTARTS=10000` that of the restarts; what was seen is printed (`-s` shows it).
"""

from __future__ import annotations

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
import pytest

from rowlease.events import Events
from rowlease.model import NewRequest
from rowlease.store import Store
from rowlease.worker import Worker
from tests.acceptance.test_worker import line, worker_process
from tests.stress import bad_tasks
from tests.stress.bad_tasks import AT_ONCE

TIMES = int(os.environ.get("ROWLEASE_STRESS_TIMES", "1"))
RESTARTS = int(os.environ.get("ROWLEASE_STRESS_RESTARTS", "60"))
Sql = Callable[..., list[tuple[Any, ...]]]
POISONS = {
    "segfault": "was killed by signal 11",
    "os._exit": "exited with code 0",
    "out of memory": "MemoryError",
    "endless loop": "ran past its time limit",
    "endless fork": "ran past its time limit",
    "huge result": "2097154 bytes of JSON; at most 1048576 are kept",
    "unpicklable result": "is not JSON",
    "unprintable exception": "Unprintable",
    "closed stdout": "nowhere to say it",
}


def say(words: str) -> None:
    sys.stdout.write(f"\n{words}\n")


def drained(store: Store, **settings: Any) -> Counter[str]:
    """Work until nothing is left, whatever has to be retried."""
    counts: Counter[str] = Counter()
    while True:
        summary = Worker(store, bad_tasks.__name__, burst=True, events=Events(), **settings).run()
        counts.update({"crashed": summary.crashed, "claimed": summary.claimed})
        if not any(row.pending or row.scheduled or row.processing for row in store.depth()):
            return counts


@pytest.mark.timeout(120 + TIMES * 10)
def test_poison_ends_in_dead_letters_and_harms_no_bystander(store: Store, sql: Sql) -> None:
    requests = [
        request
        for _ in range(TIMES)
        for do in POISONS
        for request in (
            NewRequest(kind="harmless"),
            NewRequest(
                kind="poison", payload=f'{{"do": "{do}"}}', max_attempts=2, retry_base=AT_ONCE
            ),
            NewRequest(kind="harmless"),
        )
    ]
    store.enqueue_many("default", requests)
    me = psutil.Process()
    before = set(me.children(recursive=True))  # other tests have started a Java
    counts = drained(store, concurrency=2)
    for do, said in POISONS.items():
        errors = sql(
            "select last_error, num_attempts from rowlease.queue"
            f" where status = 'Failed' and payload ->> 'do' = '{do}'"
        )
        assert len(errors) == TIMES, do
        assert all(said in error for error, _ in errors), (do, errors[0])
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


@pytest.mark.timeout(120 + TIMES * 10)
def test_who_was_stopped_beyond_its_lease_is_refused_every_time(
    dsn: str, store: Store, sql: Sql, tmp_path: Path
) -> None:
    lease = timedelta(seconds=0.25)
    refused = 0
    with worker_process(dsn, tasks=bad_tasks.__name__, concurrency=1, lease=lease) as stopped:
        for turn in range(TIMES):
            gate = tmp_path / f"gate {turn}"
            os.mkfifo(gate)
            (answer,) = store.enqueue_many(
                "default",
                [
                    NewRequest(
                        kind="wait_once",
                        payload=f'{{"mark": "{tmp_path}/mark {turn}", "gate": "{gate}"}}',
                    )
                ],
            )
            assert f"request_id={answer.request_id} " in line(stopped, "started request_id")
            stopped.send_signal(signal.SIGSTOP)
            while not (claim := store.dequeue("other", ["default"], 1)).requests:
                time.sleep((claim.wait or lease).total_seconds())
            store.complete(claim.requests, ['"in time"'])
            gate.write_text("through")
            stopped.send_signal(signal.SIGCONT)
            assert f"request_id={answer.request_id} " in line(stopped, "lease lost")
            refused += 1
    assert sql(
        "select result #>> '{}', lock_token, num_attempts, count(*) from rowlease.queue_history"
        " group by 1, 2, 3"
    ) == [("in time", 2, 2, TIMES)]
    say(f"stopped beyond its lease: the late outcome was refused {refused} times of {TIMES}")


@pytest.mark.timeout(60 + TIMES * 20)
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


@pytest.mark.timeout(120 + RESTARTS // 3)
def test_restarts_of_children_leak_nothing(store: Store, sql: Sql) -> None:
    me = psutil.Process()

    def used() -> tuple[int, int, int]:
        ((connections,),) = sql(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and backend_type = 'client backend'"
        )
        return me.num_fds(), len(me.children(recursive=True)), connections

    def run(count: int) -> int:
        exits = NewRequest(kind="poison", payload='{"do": "os._exit"}', max_attempts=1)
        store.enqueue_many("default", [exits] * count)
        return drained(store, concurrency=4)["crashed"]

    assert run(10) == 10  # whatever is made once is there now
    before = used()
    assert run(RESTARTS) == RESTARTS
    assert used() == before
    say(f"{RESTARTS} restarts of children: descriptors, processes, connections as before: {before}")
