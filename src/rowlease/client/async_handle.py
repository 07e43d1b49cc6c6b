"""The handles of a request and of a batch for asyncio, which read status and result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Generic

from rowlease.client.batch import Batch
from rowlease.client.call_threads import CallThreads
from rowlease.client.handle import Handle
from rowlease.model import BatchState, Outcome, Request
from rowlease.tasks.requests import R_co
from rowlease.tasks.task import R, Task


@dataclass(frozen=True, slots=True)
class AsyncHandle(Generic[R_co]):
    """A `Handle` for asyncio. Its methods are awaited, and raise the errors of `Handle`.

    Attributes:
        request_id, outcome: the same as for `Handle`.
    """

    request_id: int
    outcome: Outcome | None
    _handle: Handle[R_co] = field(compare=False, repr=False)
    _threads: CallThreads = field(compare=False, repr=False)

    @classmethod
    def of(cls, handle: Handle[R_co], threads: CallThreads) -> AsyncHandle[R_co]:
        """A handle for asyncio of the same request. Its calls are made in `threads`."""
        return cls(handle.request_id, handle.outcome, handle, threads)

    async def status(self) -> str | None:
        """See `Handle.status`."""
        return await self._threads.call(self._handle.status)

    async def read(self) -> Request | None:
        """See `Handle.read`."""
        return await self._threads.call(self._handle.read)

    async def result(self, timeout: timedelta | None = None) -> R_co:  # noqa: ASYNC109
        """See `Handle.result`. Waiting does not occupy a thread."""
        return await self._handle.result_in(self._threads, timeout)

    async def cancel(self, *, kill: bool = False) -> Outcome:
        """See `Handle.cancel`."""
        return await self._threads.call(partial(self._handle.cancel, kill=kill))

    async def requeue(self) -> Outcome:
        """See `Handle.requeue`."""
        return await self._threads.call(self._handle.requeue)


@dataclass(frozen=True, slots=True)
class AsyncBatch:
    """A `Batch` for asyncio. Its methods are awaited, and raise the errors of `Batch`."""

    batch_id: str
    _batch: Batch = field(compare=False, repr=False)
    _threads: CallThreads = field(compare=False, repr=False)

    @property
    def then(self) -> AsyncHandle[Any]:
        """See `Batch.then`."""
        return AsyncHandle.of(self._batch.then, self._threads)

    async def read(self) -> BatchState | None:
        """See `Batch.read`."""
        return await self._threads.call(self._batch.read)

    async def results(self, task: Task[..., R]) -> AsyncIterator[R]:
        """See `Batch.results`. Iterate with `async for`."""
        pages = self._batch.pages(task)
        while (page := await self._threads.call(next, pages, None)) is not None:
            for result in page:
                yield result

    async def wait(self, timeout: timedelta | None = None) -> BatchState:  # noqa: ASYNC109
        """See `Batch.wait`. Waiting does not occupy a thread."""
        return await self._batch.wait_in(self._threads, timeout)
