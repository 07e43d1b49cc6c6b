"""The client for asyncio. It makes the calls of `Client`, which block, in threads."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from rowlease.client.async_handle import AsyncBatch, AsyncHandle
from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.client.call_threads import CallThreads
from rowlease.client.client import Client
from rowlease.client.enqueue_call import BatchCall, EnqueueCall
from rowlease.client.sending import RETRY_FOR, Sending
from rowlease.errors import InvalidRequest
from rowlease.filters.filter import Filter
from rowlease.model import Found
from rowlease.store import Store
from rowlease.tasks.requests import CallOptions, Options, TaskRequest
from rowlease.tasks.task import Link, P, R, Task

T = TypeVar("T")
Q = ParamSpec("Q")


class AsyncProducer(ABC):
    """Puts requests into queues: an `AsyncClient`, or a producer bound to a transaction."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that this producer uses. Its calls block, so use `AsyncClient.run_sync`."""

    @abstractmethod
    async def _send(self, call: EnqueueCall[R]) -> list[AsyncHandle[R]]:
        """Enqueue all requests or none. The handles are in the order of the requests."""

    @abstractmethod
    async def _send_batch(self, call: BatchCall) -> AsyncBatch:
        """Make all these calls or none."""

    async def enqueue(
        self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncHandle[R]:
        """Enqueue one request to call the task with these arguments; see `Client.enqueue`.

        If this call is cancelled, the request may or may not be enqueued. To repeat the call
        safely, use a receipt: `task.with_options(receipt=...)`.
        """
        (handle,) = await self._send(EnqueueCall.of_task(task, args, kwargs))
        return handle

    async def enqueue_untyped(
        self, kind: str, payload: Any = None, /, **options: Unpack[Options]
    ) -> AsyncHandle[Any]:
        """Enqueue one request for a task that this program cannot import.

        See `Client.enqueue_untyped`.
        """
        (handle,) = await self._send(EnqueueCall[Any].of_kind(kind, payload, options))
        return handle

    async def enqueue_many(
        self, requests: Iterable[TaskRequest[R] | Link[R]], /, **options: Unpack[CallOptions]
    ) -> list[AsyncHandle[R]]:
        """Enqueue all of these requests or none; see `Client.enqueue_many`."""
        return await self._send(EnqueueCall.of_batch(requests, options))

    async def enqueue_batch(
        self,
        requests: Iterable[TaskRequest[Any] | Link[Any]],
        /,
        *,
        then: TaskRequest[Any] | Link[Any] | None = None,
        even_if_dead: bool = False,
        batch_id: str | None = None,
        receipt: str | None = None,
    ) -> AsyncBatch:
        """Enqueue a batch, all or none; see `Client.enqueue_batch`."""
        return await self._send_batch(BatchCall(requests, then, even_if_dead, batch_id, receipt))


class AsyncBoundProducer(AsyncProducer):
    """Puts requests into queues as part of your transaction; made by `AsyncClient.bind`."""

    def __init__(self, store: Store, connection: Any, threads: CallThreads) -> None:
        self._store = store
        self._connection = connection
        self._threads = threads

    @property
    def store(self) -> Store:
        return self._store

    async def _send(self, call: EnqueueCall[R]) -> list[AsyncHandle[R]]:
        receipt = call.receipt_in_transaction()
        with call.within_middleware():
            answers = await call.send_async(self._store, receipt, self._connection)
        handles = call.handles(answers, self._store)
        return [AsyncHandle.of(handle, self._threads) for handle in handles]

    async def _send_batch(self, call: BatchCall) -> AsyncBatch:
        with call.within_middleware():
            answers = [
                answer
                for each, receipt in call.with_receipts(call.options["receipt"])
                for answer in await each.send_async(self._store, receipt, self._connection)
            ]
        batch = Batch(call.batch_id, BatchReads(self._store), call.then(answers, self._store))
        return AsyncBatch(call.batch_id, batch, self._threads)


class AsyncClient(AsyncProducer):
    """Puts requests into queues, for programs with asyncio.

    The calls of the store block, so up to 16 threads make them. A call that waits for a result, for
    room or for its next try does not occupy a thread. Several event loops may use one client.

    The arguments and errors are those of `Client`.
    """

    def __init__(self, dsn: str | None = None, *, retry_for: timedelta = RETRY_FOR) -> None:
        self._client = Client(dsn, retry_for=retry_for)
        self._retry_for = retry_for
        self._threads: CallThreads | None = None

    @classmethod
    def over(cls, client: Client) -> Self:
        """An open client that makes its calls through this one."""
        opened = cls()
        opened._client, opened._threads = client, CallThreads()
        return opened

    async def open(self) -> Self:
        """Open the client, where an `async with` block does not fit; see `Client.open`."""
        if self._threads is not None:
            return self
        threads = CallThreads()
        opening = threads.submit(self._client.open)
        try:
            await asyncio.wrap_future(opening)
        except BaseException:
            threads.close()
            # After a cancellation the thread may still open the client, so close it then.
            opening.add_done_callback(lambda _: self._client.close())
            raise
        self._threads = threads
        return self

    async def close(self) -> None:
        """Close the client. It can be opened again."""
        threads, self._threads = self._threads, None
        if threads is not None:
            try:
                await threads.call(self._client.close)
            finally:
                threads.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def store(self) -> Store:
        """The store that this client uses. Its calls block, so use `run_sync`."""
        client, _ = self._opened
        return client.store

    @property
    def _opened(self) -> tuple[Client, CallThreads]:
        if self._threads is None:
            raise InvalidRequest(
                "the client is not open: use it in an `async with` block, or call `open`"
            )
        return self._client, self._threads

    @overload
    def get(self, request_id: int) -> AsyncHandle[Any]: ...

    @overload
    def get(self, request_id: int, task: Task[..., R]) -> AsyncHandle[R]: ...

    def get(self, request_id: int, task: Task[..., Any] | None = None) -> AsyncHandle[Any]:
        """A handle of the request with this id; see `Client.get`. Do not await this call."""
        client, threads = self._opened
        handle = client.get(request_id) if task is None else client.get(request_id, task)
        return AsyncHandle.of(handle, threads)

    def batch(self, batch_id: str) -> AsyncBatch:
        """The batch with this id, or the load; see `Client.batch`. Do not await this call."""
        client, threads = self._opened
        return AsyncBatch(batch_id, client.batch(batch_id), threads)

    async def find(
        self,
        text: str | None = None,
        /,
        *,
        limit: int = 100,
        after: int | None = None,
        **filters: Unpack[Filter],
    ) -> Found:
        """Find requests, the newest first; see `Client.find`."""
        client, threads = self._opened
        return await threads.call(client.find, text, limit=limit, after=after, **filters)

    def bind(self, connection: Any) -> AsyncBoundProducer:
        """A producer with the same enqueue methods, which enqueues as part of your transaction.

        The requests exist if and only if the transaction commits.

        Args:
            connection: your psycopg AsyncConnection, asyncpg Connection, or SQLAlchemy
                AsyncConnection or AsyncSession.
        """
        client, threads = self._opened
        return AsyncBoundProducer(client.store, connection, threads)

    async def run_sync(
        self, function: Callable[Concatenate[Client, Q], T], /, *args: Q.args, **kwargs: Q.kwargs
    ) -> T:
        """Call a function with the synchronous client in a thread.

        Use it for calls without a method here, for example
        `await client.run_sync(lambda sync: sync.queues.pause("web"))`.
        """
        client, threads = self._opened
        return await threads.call(function, client, *args, **kwargs)

    async def _send(self, call: EnqueueCall[R]) -> list[AsyncHandle[R]]:
        client, threads = self._opened
        store = client.store
        with call.within_middleware():
            answers = await Sending(store, call, self._retry_for).send_in(threads)
        return [AsyncHandle.of(handle, threads) for handle in call.handles(answers, store)]

    async def _send_batch(self, call: BatchCall) -> AsyncBatch:
        client, threads = self._opened
        with call.within_middleware():
            answers = await Sending(client.store, call, self._retry_for).send_in(threads)
        then = call.then(answers, client.store)
        batch = replace(client.batch(call.batch_id), _then=then)
        return AsyncBatch(call.batch_id, batch, threads)
