"""Runs the same code in a thread or in asyncio, so that `Client` and `AsyncClient` share it.

Such code is a generator of steps. A step is a call that may block, or a pause. The generator is
resumed with the result of the step, or with its exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from rowlease.client.call_threads import CallThreads
from rowlease.store.notice import Notice

T = TypeVar("T")

Steps: TypeAlias = Generator[Callable[[], Any], Any, T]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, which ends early when the notice is set."""

    seconds: float
    until: Notice | None

    def __call__(self) -> None:
        """Pause this thread."""
        if self.until is None:
            time.sleep(self.seconds)
        else:
            self.until.wait(self.seconds)

    async def in_event_loop(self) -> Any:
        """Pause this coroutine."""
        if self.until is None:
            await asyncio.sleep(self.seconds)
        else:
            await self.until.wait_in_loop(self.seconds)


def call(work: Callable[[], T]) -> Steps[T]:
    """A step: a call that may block."""
    result: T = yield work
    return result


def pause(seconds: float, until: Notice | None = None) -> Steps[None]:
    """A step: a pause of this many seconds, which ends early when the notice is set."""
    yield Pause(seconds, until)


def run(steps: Steps[T]) -> T:
    """Execute the steps in this thread."""
    try:
        step = next(steps)
        while True:
            try:
                result = step()
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


async def run_in(threads: CallThreads | None, steps: Steps[T]) -> T:
    """Execute the steps from an event loop: calls in `threads`, pauses in the event loop.

    If `threads` is None, calls block the event loop, and awaitable results are awaited.

    If this coroutine is cancelled, a call that has begun continues, and its result is dropped.
    """
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Pause):
                    result = await step.in_event_loop()
                elif threads is None:
                    result = step()
                    if isawaitable(result):
                        result = await result
                else:
                    called = threads.submit(partial(copy_context().run, step))
                    result = await asyncio.wrap_future(called)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
