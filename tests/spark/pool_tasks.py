"""Tasks for the tests of pools, imported by the executors."""

from __future__ import annotations

import os
import time
from typing import Any

from rowlease import current, task


@task(max_attempts=20)
def nap(seconds: float = 0.0) -> dict[str, Any]:
    """Take a while, unless asked to stop; return the worker."""
    print("a task may print")  # noqa: T201
    until = time.monotonic() + seconds
    while time.monotonic() < until and not current().should_stop:
        time.sleep(0.01)
    return {"child": os.getpid(), "worker": os.getppid()}


@task(max_attempts=1)
def fails() -> None:
    """Fail."""
    raise ValueError("as asked")


@task(max_attempts=20)
def hang() -> None:
    """Keep running, even if asked to stop."""
    time.sleep(600)
