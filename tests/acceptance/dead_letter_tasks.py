"""Tasks that die in every way, for child processes: the module imports little."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta

from rowlease.tasks.task import task


@task
def report(request_id: int, kind: str, error: str) -> str:
    return f"{kind} {request_id}: {error}"


@task(takes_dead_letters=True)
def collect(request_id: int, kind: str, error: str) -> str:
    return f"{kind} {request_id}: {error}"


@task(max_attempts=1, time_limit=timedelta(seconds=1))
def fall(how: str) -> None:
    die(how)


@task(on_dead_letter=report, max_attempts=1, time_limit=timedelta(seconds=1))
def die(how: str) -> None:
    match how:
        case "crash":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "time limit":
            threading.Event().wait()
        case "failure":
            raise ValueError("no")
