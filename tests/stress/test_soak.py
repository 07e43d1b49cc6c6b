"""A worker that runs on needs no more memory, descriptors or threads than at the beginning.

`ROWLEASE_STRESS_REQUESTS=1000000 pytest -s tests/stress/test_soak.py` is the long form.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from rowlease.model import NewRequest
from rowlease.store import Store
from tests.stress import soak_tasks
from tests.waiting import until

REQUESTS = int(os.environ.get("ROWLEASE_STRESS_REQUESTS", "10000"))
#: How often the sessions of the worker are ended.
ENDS = 5
END = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
 where datname = current_database() and application_name like 'rowlease worker%'"""
#: What may be added to the memory of all processes of the worker, in MiB. In the short form, a leak
#: of 2 kB a request is more.
MORE = 20
LEFT = "select count(*) from rowlease.queue where status <> 'Failed'"
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.timeout(300 + REQUESTS // 100)
@pytest.mark.parametrize("executor", ["process", "thread", "coroutine"])
def test_memory_descriptors_and_threads_stay_flat(
    dsn: str, store: Store, sql: Sql, executor: str
) -> None:
    def run(count: int) -> None:
        for start in range(0, count, 1000):
            numbers = range(start, min(count, start + 1000))
            payloads = [f'{{"n": {number}}}' for number in numbers]
            store.enqueue_many("default", [NewRequest(kind="varied", payload=p) for p in payloads])
        until(lambda: sql(LEFT) == [(0,)], 300 + count / 100)

    command = [sys.executable, "-m", "rowlease", "worker", soak_tasks.__name__, "--dsn", dsn]
    command += ["--executor", executor, "--concurrency", "4", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        worker = psutil.Process(process.pid)

        def used() -> tuple[int, int, float]:
            """Descriptors, threads, and MiB of its own, of the worker and its children."""
            all_of_it = [worker, *worker.children(recursive=True)]
            return (
                sum(one.num_fds() for one in all_of_it),
                sum(one.num_threads() for one in all_of_it),
                sum(one.memory_full_info().uss for one in all_of_it) / 2**20,
            )

        def is_as_before() -> bool:
            now_fds, now_threads, _ = used()
            return now_fds <= fds and now_threads <= threads

        try:
            run(5000)
            fds, threads, memory = used()
            for _ in range(ENDS):
                run(REQUESTS // ENDS)
                assert sql(END) > [(0,)]
            run(1000)
            until(is_as_before)
            grown = used()[2] - memory
        finally:
            process.kill()
    sys.stdout.write(
        f"\n{executor}: {REQUESTS:,} requests, at most {fds} descriptors and {threads} threads,"
        f" {memory:.1f} MiB and {grown:+.1f}\n"
    )
    assert grown < MORE
