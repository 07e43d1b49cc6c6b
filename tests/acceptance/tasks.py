"""Tasks for child processes to run: the module imports little, so that a child starts fast."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from rowlease.context import current
from rowlease.errors import DeadLetter, Retry
from rowlease.tasks.task import task

HOUR = timedelta(hours=1)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@task
def act(do: str = "ok", **given: Any) -> object:
    """One task for every outcome of a request."""
    match do:
        case "ok":
            return {"did": "ok", **given}
        case "fail":
            raise ValueError("no luck today")
        case "type error":
            raise TypeError("the task's own")
        case "retry":
            raise Retry("come back later", after=HOUR)
        case "dead":
            raise DeadLetter("never again")
        case "mute":
            raise Unprintable
        case "leave":
            sys.exit("left")
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "fork":
            os.fork()  # and both return
        case "close":
            sys.stdout.close()
            os.close(2)
        case "chatter":
            sys.stdout.write("\0" * 100_000)
        case "huge":
            return "x" * 2_000_000
        case "object":
            return object()
        case "nan":
            return {"value": float("nan")}
        case "obey":
            while not current().should_stop:
                threading.Event().wait(0.001)
            raise RuntimeError("stopped, as asked")
        case "stay":
            threading.Event().wait()
        case "report":
            current().progress(0.25, "a quarter")
            return Path(given["gate"]).read_text()
        case "wait":
            return Path(given["gate"]).read_text()
        case "wait once":
            try:
                Path(given["mark"]).touch(exist_ok=False)
            except FileExistsError:
                return "second"
            Path(given["gate"]).read_text()
            return "first"
    return None


@task(time_limit=timedelta(seconds=0.3))
def endless() -> None:
    threading.Event().wait()


@task
def old_task() -> None: ...


@task
def new_task() -> None: ...
