"""Runs plain functions in threads; the event loop awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Any

from rowlease.context import Context
from rowlease.middleware import around_run
from rowlease.model import Failure
from rowlease.tasks.task import Task
from rowlease.worker.attempt import Returned, SnoozeAsked, failed


async def attempt(
    task: Task[..., Any], request: Context, payload: str, expire: Callable[[], object]
) -> Returned | Failure | SnoozeAsked:
    """Run one request in its own thread. An exception of the task becomes a `Failure`.

    A thread cannot be killed. When this coroutine is cancelled, the thread goes on until the task
    returns. There is no pool, because such threads would fill it. The threads are daemons, so that
    they do not keep the process from ending.

    Args:
        expire: a function that is called at the soft time limit, because an exception cannot be
            raised in another thread.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Returned | Failure | SnoozeAsked] = loop.create_future()
    context = copy_context()

    def settle(ending: Returned | Failure | SnoozeAsked) -> None:
        if not ended.done():
            ended.set_result(ending)

    def call() -> None:
        ending = context.run(run, task, request, payload)
        with suppress(RuntimeError):  # the event loop ended before this thread
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


def run(task: Task[..., Any], context: Context, payload: str) -> Returned | Failure | SnoozeAsked:
    """Run one request in this thread. An exception of the task becomes a `Failure`."""
    try:
        with around_run(task, context):
            return Returned(task.run(payload))
    except BaseException as error:
        return failed(task, error)
