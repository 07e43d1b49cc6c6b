"""What a caller waits on until another thread has news for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue


class Notice:
    """Is set by any thread. A caller waits for it in its thread or in its event loop.

    It has no lock that an interrupted caller could leave locked (see `pool`).
    """

    def __init__(self) -> None:
        self._set: SimpleQueue[None] = SimpleQueue()
        self._calls: deque[Callable[[], object]] = deque()

    @property
    def is_set(self) -> bool:
        return not self._set.empty()

    def set(self) -> None:
        """End the waits. Safe from any thread."""
        self._set.put(None)
        with suppress(IndexError):
            while True:
                call = self._calls.popleft()
                with suppress(RuntimeError):  # the event loop is closed
                    call()

    def wait(self, seconds: float) -> None:
        """Block this thread until the notice is set, at most so long."""
        with suppress(Empty):
            self._set.put(self._set.get(timeout=seconds))

    async def wait_in_loop(self, seconds: float) -> None:
        """The same as `wait`, for a coroutine."""
        woken = asyncio.Event()
        # It may be set before or after this line, from another thread.
        self._calls.append(partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set))
        if self.is_set:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), seconds)
