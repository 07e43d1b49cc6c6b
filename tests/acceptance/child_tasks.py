"""Tasks that harm their child processes or outlive them; child processes import this module."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from rowlease.tasks.task import Task, task


@task
def leave_a_thread() -> None:
    """A thread that the interpreter would wait for at its end."""
    threading.Thread(target=threading.Event().wait, daemon=False).start()


@task
def whoami() -> int:
    return os.getpid()


_leaked: list[bytes] = []


@task
def leak(mib: int) -> int:
    _leaked.append(b"x" * (mib << 20))
    return os.getpid()


@task
def close_all() -> None:
    """Close all descriptors, as a process does to become a daemon."""
    os.closerange(3, 256)


@task
def close_all_and_stay() -> None:
    os.closerange(3, 256)
    threading.Event().wait()


@task
def start_sleep(reported: str) -> None:
    """Start a process that outlives the attempt."""
    Path(reported).write_text(str(subprocess.Popen(["sleep", "333"]).pid))


@task
def wait_beside_sleep(reported: str) -> None:
    start_sleep(reported)
    threading.Event().wait()


@task
def close_all_beside_sleep(reported: str) -> None:
    start_sleep(reported)
    os.closerange(3, 256)
    threading.Event().wait()


@task
def ping() -> str:
    return "pong"


TASKS: list[Task[..., Any]] = [
    leave_a_thread,
    close_all,
    close_all_and_stay,
    start_sleep,
    wait_beside_sleep,
    close_all_beside_sleep,
    ping,
]
