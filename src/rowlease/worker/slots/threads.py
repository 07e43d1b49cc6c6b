"""Runs plain functions in threads, beside the event loop that awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread

from rowlease.model import Failure
from rowlease.tasks import Task
from rowlease.worker.attempt import Returned, failed


async def attempt(task: Task, payload: str, expire: Callable[[], object]) -> Returned | Failure:
    """Run one request in a thread of its own; whatever the task raises becomes text.

    Cancelled, it leaves the thread behind, which goes on until the task returns: no thread can be
    killed. That is why there is no pool of them, which such threads would clog, and why they are
    daemons: none keeps the process from ending.

    Args:
        expire: called when the soft time limit is over: nothing can be raised in a thread.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Returned | Failure] = loop.create_future()
    context = copy_context()

    def settle(ending: Returned | Failure) -> None:
        if not ended.done():
            ended.set_result(ending)

    def call() -> None:
        ending = context.run(run, task, payload)
        with suppress(RuntimeError):  # left behind, and the loop has ended
            loop.call_soon_threadsafe(settle, ending)

    Thread(target=call, name="rowlease-task", daemon=True).start()
    limit = task.soft_time_limit
    timer = limit and loop.call_later(limit.total_seconds(), expire)
    try:
        return await ended
    except asyncio.CancelledError as error:
        return failed(task, error)
    finally:
        if timer:
            timer.cancel()


def run(task: Task, payload: str) -> Returned | Failure:
    """As the function of that name in `child_loop`, without its signals."""
    try:
        return Returned(task.run(payload))
    except BaseException as error:
        return failed(task, error)
