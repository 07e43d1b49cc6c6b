"""Runs plain functions in threads; the event loop awaits them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from rowlease.context import Context
from rowlease.middleware import around_run
from rowlease.tasks.task import Task
from rowlease.worker.attempt import Ending, failed, returned

#: Runs a request, and returns a function that passes its ending to the event loop.
ThreadCall = Callable[[], Callable[[], object]]


class TaskThreads:
    """Threads that run plain functions. A thread whose function has returned is used again.

    A thread cannot be killed. When the coroutine that waits for it is cancelled, the thread goes on
    until the function returns. The number of threads has no limit, because such threads would use
    it up. They are daemons, so that they do not keep the process from ending.
    """

    def __init__(self) -> None:
        self._free: list[SimpleQueue[ThreadCall | None]] = []
        self._is_closed = False

    async def attempt(
        self, task: Task[..., Any], request: Context, payload: str, expire: Callable[[], object]
    ) -> Ending:
        """Run one request in a thread. An exception of the task becomes a `Failure`.

        Args:
            expire: a function that is called at the soft time limit, because an exception cannot be
                raised in another thread.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Ending] = loop.create_future()
        context = copy_context()

        def settle(ending: Ending) -> None:
            if not ended.done():
                ended.set_result(ending)

        def call() -> Callable[[], object]:
            ending = context.run(run, task, request, payload)
            return partial(loop.call_soon_threadsafe, settle, ending)

        self._start(call)
        limit = task.soft_time_limit
        timer = limit and loop.call_later(limit.total_seconds(), expire)
        try:
            return await ended
        except asyncio.CancelledError as error:
            return failed(task, error)
        finally:
            if timer:
                timer.cancel()

    def close(self) -> None:
        """End the threads that run nothing, and each other one when its function returns."""
        self._is_closed = True
        with suppress(IndexError):  # such a thread calls this, too
            while True:
                self._free.pop().put(None)

    def _start(self, call: ThreadCall) -> None:
        if self._free:
            calls = self._free.pop()
        else:
            calls = SimpleQueue()
            name = "rowlease-task"
            threading.Thread(target=self._work, args=(calls,), name=name, daemon=True).start()
        calls.put(call)

    def _work(self, calls: SimpleQueue[ThreadCall | None]) -> None:
        while call := calls.get():
            settle = call()
            self._free.append(calls)  # first: the next request may come at once
            if self._is_closed:
                self.close()
            with suppress(RuntimeError):  # the event loop ended before this thread
                settle()


def run(task: Task[..., Any], context: Context, payload: str) -> Ending:
    """Run one request in this thread. An exception of the task becomes a `Failure`."""
    try:
        with around_run(task, context):
            result = task.run(payload)
        return returned(context, result)
    except BaseException as error:
        return failed(task, error)
