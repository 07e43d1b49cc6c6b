"""Tasks whose outcomes the database refuses; child processes import this module."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from typing import Any

from rowlease.context import current
from rowlease.errors import Snooze
from rowlease.tasks.codec import MAX_LEVELS
from rowlease.tasks.task import task
from rowlease.worker.slots import wire


@task
def ok() -> str:
    return "ok"


@task
def deep() -> object:
    """A result that is nested deeper than JSON may be."""
    result: list[Any] = []
    for _ in range(MAX_LEVELS):
        result = [result]
    return result


@task
def euro(do: str) -> str:
    if do == "raise":
        raise ValueError("5 €")
    if do == "snooze":
        raise Snooze(timedelta(hours=1), "5 €")
    return "5 €"


@task
def note(text: str, gate: str) -> None:
    """Reports progress, in which JSON's escapes become characters, and waits at a pipe."""
    current().progress(0.5, json.loads(f'"{text}"'))
    with open(gate) as opened:
        opened.read()


@task
def write_into_pipes(form: str) -> None:
    """Write to the pipes of the worker by mistake; the worker must not take that for an answer."""
    garbage = {
        "no such code": wire.frame(wire.answer(1, 200)),
        "endless": wire.FRAME_SIZE.pack(2**32 - 1),
        "no text": wire.frame(wire.answer(1, wire.DONE, body=b"\xff")),
        "no seconds": wire.frame(wire.answer(1, wire.RETRY, body=b"x")),
        "no number": wire.frame(wire.answer(1, wire.DONE, float("nan"))),
    }[form]
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd <= 2:
            continue
        try:
            if "pipe" in os.readlink(f"/proc/self/fd/{fd}"):
                os.write(fd, garbage)
        except OSError:
            continue  # closed, or open for reading


@task(executor="coroutine")
async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@task(executor="coroutine")
async def ok_in_the_loop() -> None: ...
