"""Runs plain functions in threads, beside the event loop that awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread

from rowlease.tasks import Task
from rowlease.worker import child


async def attempt(task: Task, payload: str, expire: Callable[[], object]) -> tuple[int, bytes]:
    """Run one request in a thread of its own; whatever the task raises becomes text.

    Cancelled, it leaves the thread behind, which goes on until the task returns: no thread can be
    killed. That is why there is no pool of them, which such threads would clog, and why they are
    daemons: none keeps the process from ending.

    Args:
        expire: called when the soft time limit is over: nothing can be raised in a thread.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[int, bytes]] = loop.create_future()
    context = copy_context()

    def settle(outcome: tuple[int, bytes]) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def call() -> None:
        outcome = context.run(run, task, payload)
        with suppress(RuntimeError):  # left behind, and the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    Thread(target=call, name="rowlease-task", daemon=True).start()
    limit = task.soft_time_limit
    timer = limit and loop.call_later(limit.total_seconds(), expire)
    try:
        return await ended
    except asyncio.CancelledError as error:
        return child.failed(task, error)
    finally:
        if timer:
            timer.cancel()


def run(task: Task, payload: str) -> tuple[int, bytes]:
    """As the function of that name in `rowlease.worker.child`, without its signals."""
    try:
        result = task.run(payload)
        return child.DONE, b"" if result is None else result.encode()
    except BaseException as error:
        return child.failed(task, error)
