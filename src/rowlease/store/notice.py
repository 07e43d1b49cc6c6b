"""What a caller waits on until another thread has news for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from weakref import ref

from rowlease.forks import watch_forks


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


class Notices:
    """The notices of all callers that wait, by a key.

    A caller may be interrupted anywhere by a signal handler that raises: its notice is forgotten
    when it is dropped.
    """

    def __init__(self) -> None:
        self.forget()
        watch_forks(self)

    def forget(self) -> None:
        """Begin without callers, in a child that was forked."""
        self._lock = threading.Lock()
        self._waiting: dict[str, set[ref[Notice]]] = {}

    def __len__(self) -> int:
        """The number of keys for which callers wait."""
        return len(self._waiting)

    @property
    def keys(self) -> list[str]:
        # A caller that was interrupted may have left its key without a notice.
        return [key for key, waiting in list(self._waiting.items()) if waiting]

    @contextmanager
    def expecting(self, key: str) -> Iterator[Notice]:
        """A notice that `set` sets within the block."""
        notice = Notice()
        with self._lock:
            waiting = self._waiting.setdefault(key, set())
            waiting.add(ref(notice, waiting.discard))
        try:
            yield notice
        finally:
            with self._lock:
                waiting.discard(ref(notice))
                if not waiting:
                    self._waiting.pop(key, None)

    def set(self, keys: Iterable[str]) -> None:
        """End the waits for these keys."""
        with self._lock:
            woken = [each() for key in keys for each in self._waiting.get(key, ())]
        for notice in woken:
            if notice is not None:
                notice.set()
