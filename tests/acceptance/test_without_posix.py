"""A producer needs nothing of the operating system that Windows does not have.

No Windows runs this test. It takes away what its Python lacks, and produces.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import in_database, scratch_database

PRODUCER = Path(__file__).with_name("producer.py")
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

import runpy
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_producer_runs_without_posix(server_dsn: str, tmp_path: Path) -> None:
    program = tmp_path / "without_posix.py"
    program.write_text(WITHOUT_POSIX)
    with scratch_database(server_dsn) as name:
        done = subprocess.run(
            [sys.executable, program, PRODUCER],
            capture_output=True,
            text=True,
            env={"ROWLEASE_DSN": in_database(server_dsn, name), "PATH": ""},
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("migrated and enqueued\n")
