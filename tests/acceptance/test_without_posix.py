"""A producer needs nothing of the operating system that Windows does not have.

No Windows runs these tests. They take away what its Python lacks, and produce.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT_POSIX = """
import os, select, signal, sys

for module, names in {
    os: ("fork", "forkpty", "geteuid", "getuid", "killpg", "register_at_fork", "sched_getaffinity",
         "setsid", "waitid"),
    select: ("epoll", "poll"),
    signal: ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGUSR1", "pthread_sigmask", "sigwait"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
"""
PRODUCER = """
import asyncio
from datetime import timedelta
from rowlease import AsyncClient, Client, task

@task
def add(n: int) -> int: ...

with Client() as client:
    later = add.with_options(delay=timedelta(hours=1), priority=3)
    handles = [client.enqueue(add, 1), client.enqueue(later, 2)]
    client.enqueue_many([add.request(3)], batch_id="May")
    print([handle.status() for handle in handles], client.batch("May").read().num_requests)
    print(client.requests.cancel("queue:default status:scheduled").num_requests)

async def main() -> None:
    async with AsyncClient() as client:
        handle = await client.enqueue(add, 4)
        print(await handle.status())

asyncio.run(main())
"""


def test_a_producer_runs_without_posix(dsn: str, tmp_path: Path) -> None:
    program = tmp_path / "producer.py"
    program.write_text(WITHOUT_POSIX + PRODUCER)
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        env={"ROWLEASE_DSN": dsn, "PATH": ""},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['Pending', 'Scheduled'] 1", "1", "Pending"]
