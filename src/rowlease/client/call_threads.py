"""The threads in which an `AsyncClient` makes its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from rowlease.errors import InvalidRequest
from rowlease.forks import check_fork, watch_forks

P = ParamSpec("P")
T = TypeVar("T")

#: The maximum number of calls that one client makes at the same time. It must be below
#: `pool.MAX_OPEN`: then no call waits for a connection. If it were smaller, a call that waits for a
#: lock in the database would delay other calls more often.
MAX_CALL_THREADS = 16


class CallThreads:
    """Up to 16 threads. They start when they are needed, also in a child that was forked."""

    def __init__(self) -> None:
        self._is_closed = False
        self.forget()
        watch_forks(self)

    def forget(self) -> None:
        """Begin without threads, in a child that was forked."""
        self._executor = ThreadPoolExecutor(MAX_CALL_THREADS, "rowlease-async")

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Call a function in one of the threads.

        Raises:
            InvalidRequest: the client is closed.
            ConfigError: the process was forked without Python's knowledge.
        """
        check_fork()
        try:
            return self._executor.submit(work)
        except RuntimeError as error:
            if not self._is_closed:
                raise  # the interpreter ends
            raise InvalidRequest(
                "the client was closed: keep it open until all calls and waits have ended"
            ) from error

    async def call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads, and await its result.

        If this coroutine is cancelled, a call that has begun continues, and its result is dropped.

        Raises: the errors of `submit` and of the function.
        """
        called = self.submit(partial(copy_context().run, partial(work, *args, **kwargs)))
        return await asyncio.wrap_future(called)

    def close(self) -> None:
        """Make no more calls. Those that have begun go on."""
        self._is_closed = True
        self._executor.shutdown(wait=False)
