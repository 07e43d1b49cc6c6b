"""A database that acknowledges everything and answers nothing, under load.

`ROWLEASE_STRESS_SILENCE=60 pytest -s tests/stress/test_blackhole.py` is the long form: a minute of
silence, a lease of 6 s and a request of 15 s. What was seen is printed.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rowlease.model import NewRequest
from rowlease.store import Store
from tests.acceptance.workers import worker_process
from tests.freezing import Freezer
from tests.stress import bad_tasks
from tests.stress.test_worker_faults import drained, say

SILENCE = float(os.environ.get("ROWLEASE_STRESS_SILENCE", "4"))
#: Seconds of the lease, and of the one long request.
LEASE = 6.0 if SILENCE >= 60 else 2.0
LONG = 2.5 * LEASE
#: Requests enqueued every second meanwhile.
RATE = 50
PATIENCE = 60.0
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def proxy(dsn: str) -> Iterator[Freezer]:
    with Freezer(dsn) as opened:
        yield opened


class Log:
    """The lines of a worker's log, with the time at which each came."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[tuple[float, str]] = []
        self._process = process
        self._came = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        with suppress(ValueError):  # closed, at the end of the test
            for line in self._process.stdout:
                with self._came:
                    self.lines.append((time.monotonic(), line))
                    self._came.notify()

    def first(self, word: str, after: float = 0.0, within: float = PATIENCE) -> float:
        """The time of the first line with this word after a time."""
        until = time.monotonic() + within
        with self._came:
            while True:
                for at, line in self.lines:
                    if at > after and word in line:
                        return at
                left = until - time.monotonic()
                assert left > 0, f"no {word!r} in {''.join(line for _, line in self.lines[-30:])}"
                self._came.wait(left)

    def longest_gap(self, word: str, began: float, ended: float) -> float:
        """Seconds between two lines with this word, at most."""
        with self._came:
            times = [at for at, line in self.lines if began < at < ended and word in line]
        return max(later - at for at, later in pairwise([began, *times, ended]))

    def count(self, word: str) -> int:
        with self._came:
            return sum(word in line for _, line in self.lines)


@contextmanager
def load(store: Store) -> Iterator[list[int]]:
    """Requests, one batch after the other, until the end of the block; their ids."""
    ids: list[int] = []
    done = threading.Event()

    def enqueue() -> None:
        while not done.wait(0.1):
            batch = store.enqueue_many("default", [NewRequest(kind="brief")] * (RATE // 10))
            ids.extend(answer.request_id or 0 for answer in batch)

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield ids
    finally:
        done.set()
        thread.join()


@pytest.mark.timeout(240 + SILENCE)
@pytest.mark.parametrize("new_ones", [False, True], ids=["open sessions", "all sessions"])
def test_a_minute_of_silence(
    new_ones: bool, proxy: Freezer, dsn: str, store: Store, sql: Sql, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    lease = timedelta(seconds=LEASE)
    payload = f'{{"seconds": {LONG}, "starts": "{starts}"}}'
    with (
        worker_process(proxy.dsn, bad_tasks.__name__, concurrency=3, lease=lease) as process,
        load(store) as ids,
    ):
        log = Log(process)
        log.first("finished request_id=")
        (long,) = store.enqueue_many("default", [NewRequest(kind="long", payload=payload)])
        log.first(f"started request_id={long.request_id} ")
        proxy.freeze(new_ones=new_ones)
        began = time.monotonic()
        time.sleep(SILENCE)
        ended = time.monotonic()
        if new_ones:
            proxy.thaw()
            log.first("renewals recovered", ended)
        finished = log.first("finished request_id=", ended) - ended
        log.first(f"finished request_id={long.request_id} ", began, PATIENCE + LONG)
    # The first worker was killed, and a claim's answer may have been lost: such leases run out.
    drained(store, store, concurrency=3)
    found = sql("select status, count(*), max(num_attempts) from rowlease.requests group by 1")
    assert [(status, count) for status, count, _ in found] == [("Complete", len(ids) + 1)]
    times = len(starts.read_text())
    gap = log.longest_gap("finished request_id=", began, ended)
    say(
        f"{'all' if new_ones else 'open'} sessions silent for {SILENCE:g} s, lease {LEASE:g} s: "
        f"nothing was finished for {gap:.2f} s at most meanwhile, and then after {finished:.2f} s; "
        f"the request of {LONG:g} s was started {times} times; {len(ids)} others complete; "
        f"{log.count('renewals lost')} reports that leases could not be renewed"
    )
    assert finished < LEASE
    if new_ones:
        assert times <= 2
        assert log.count("renewals lost") == log.count("call=renew") == 1
    else:  # those that are opened later work, and a renewal takes one of them at the latest then
        assert gap < LEASE
        assert times == 1
        assert log.count("renewals lost") <= 1
