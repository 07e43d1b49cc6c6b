"""Tasks for workers in processes of their own: one kills its worker, one does nothing."""

from __future__ import annotations

import os
import signal

from rowlease import task


@task
async def kill() -> None:
    """Kill the worker before any other request of its claim has an outcome."""
    os.kill(os.getpid(), signal.SIGKILL)


@task
async def answer() -> None:
    """Do nothing."""
