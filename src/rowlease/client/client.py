"""The client: puts requests into queues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, Unpack, overload

from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.client.database import connect
from rowlease.client.enqueue_call import BatchCall, EnqueueCall
from rowlease.client.find_requests import find
from rowlease.client.handle import Handle
from rowlease.client.operations import Requests
from rowlease.client.queues import Queues
from rowlease.client.sending import RETRY_FOR, Sending
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.filters.filter import Filter
from rowlease.model import Found, check_type
from rowlease.store import Store
from rowlease.tasks.requests import CallOptions, Options, TaskRequest, decode_plain
from rowlease.tasks.task import Link, P, R, Task


class Producer(ABC):
    """Puts requests into queues: a `Client`, or a producer bound to a transaction."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that this producer uses. Use it for calls that this class lacks."""

    @abstractmethod
    def _send(self, call: EnqueueCall[R]) -> list[Handle[R]]:
        """Enqueue all requests or none. The handles are in the order of the requests."""

    @abstractmethod
    def _send_batch(self, call: BatchCall) -> Batch:
        """Make all these calls or none."""

    def enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue one request to call the task with these arguments.

        `task.with_options(priority=9, delay=...)` sets options of the request.

        Args:
            task: a function with the decorator `task`.
            args: the positional arguments for the task. All arguments are stored by name, as a
                JSON object.
            kwargs: its other arguments. For an argument that you leave out, the task's default at
                the time of the run applies.

        Raises:
            InvalidRequest: the arguments do not fit the task's parameters, cannot be written as
                JSON, or are too large; or an option is wrong. Nothing was enqueued.
            ConfigError: an annotation of the task cannot be read. Nothing was enqueued.
            QueueFull: there was no room within `wait`. Nothing was enqueued.
            EnqueueUnknown: the request may have been enqueued. Repeat the call with the error's
                receipt.
            StoreError: the database refused the call, or the call failed. Nothing was enqueued.
                Transient errors (StoreUnavailable, StoreConflict) are raised only after retries for
                `retry_for`. A bound producer tries only once; roll your transaction back if it
                fails.
        """
        (handle,) = self._send(EnqueueCall.of_task(task, args, kwargs))
        return handle

    def enqueue_untyped(
        self, kind: str, payload: Any = None, /, **options: Unpack[Options]
    ) -> Handle[Any]:
        """Enqueue one request for a task that this program cannot import.

        Args:
            kind: the name of the task.
            payload: the same as for `untyped_request`.
            options: the keys of `RequestOptions` and `CallOptions`.

        Raises:
            RowleaseError: the same errors as from `enqueue`.
        """
        (handle,) = self._send(EnqueueCall[Any].of_kind(kind, payload, options))
        return handle

    def enqueue_many(
        self, requests: Iterable[TaskRequest[R] | Link[R]], /, **options: Unpack[CallOptions]
    ) -> list[Handle[R]]:
        """Enqueue all of these requests or none.

        Args:
            requests: the requests, all for the same queue, for example
                `[resize.request(path, width=200) for path in paths]`.
            options: the keys of `CallOptions`.

        Returns:
            A handle for each request, in the same order.

        Raises:
            InvalidRequest: also if the receipt was used for a different number of requests, or the
                requests are for different queues.
            RowleaseError: the other errors of `enqueue`.
        """
        return self._send(EnqueueCall.of_batch(requests, options))

    def enqueue_batch(
        self,
        requests: Iterable[TaskRequest[Any] | Link[Any]],
        /,
        *,
        then: TaskRequest[Any] | Link[Any] | None = None,
        even_if_dead: bool = False,
        batch_id: str | None = None,
        receipt: str | None = None,
    ) -> Batch:
        """Enqueue a batch and, if `then` is given, the request that waits for its end.

        All of them are enqueued, or none, in one transaction. The requests may be for several
        queues.

            batch = client.enqueue_batch([shrink.s(image) for image in images], then=total.s())

        Args:
            requests: the members of the batch: requests or chains. The links of a chain all belong
                to the batch, so it is finished when they are.
            then: the request that becomes due when the batch is finished. If it is made by
                `Task.s`, its first argument becomes the list of the results, in the order in which
                the members were enqueued, for at most 1 MiB; its worker needs the rights of
                rowlease_reader for this. A chain has one result, that of its last link.
            even_if_dead: whether `then` runs even if members are dead letters or were cancelled;
                their results are left out. Otherwise it becomes a dead letter, which can be
                requeued after them.
            batch_id: the id of the batch; None means a new random one.
            receipt: the same as in `CallOptions`.

        Returns:
            The batch.

        Raises:
            RowleaseError: the errors of `enqueue`.
        """
        return self._send_batch(BatchCall(requests, then, even_if_dead, batch_id, receipt))


class BoundProducer(Producer):
    """Puts requests into queues as part of your transaction; made by `Client.bind`."""

    def __init__(self, store: Store, connection: Any) -> None:
        self._store = store
        self._connection = connection

    @property
    def store(self) -> Store:
        return self._store

    def _send(self, call: EnqueueCall[R]) -> list[Handle[R]]:
        receipt = call.receipt_in_transaction()
        with call.within_middleware():
            answers = call.send(self._store, receipt, connection=self._connection)
        return call.handles(answers, self._store)

    def _send_batch(self, call: BatchCall) -> Batch:
        with call.within_middleware():
            answers = [
                answer
                for each, receipt in call.with_receipts(call.options["receipt"])
                for answer in each.send(self._store, receipt, connection=self._connection)
            ]
        return Batch(call.batch_id, BatchReads(self._store), call.then(answers, self._store))


class Client(Producer):
    """Puts requests into queues.

    Several threads may use one client. After a transient error (a lost connection, or a database
    that cannot be reached or does not answer) an enqueue is repeated with the same receipt. So a
    call enqueues once, even if an earlier try was committed.

    Args:
        dsn: the database, for example `postgresql://user:password@host:port/database`. None means
            the DSN in ROWLEASE_DSN, or in the file that ROWLEASE_DSN_FILE names. If neither is set,
            the embedded server runs while the client is open.
        retry_for: the time for which an enqueue is repeated after transient errors. One try takes
            at most a third of `retry_for`, and the whole call at most `retry_for`. With 0 there is
            a single try, of at most 30 s. With `wait`, the call takes at most `wait` plus twice
            `retry_for` (60 s with 0).

    Raises:
        InvalidRequest: retry_for is not a timedelta, or it is below 0.
        ConfigError, StoreUnavailable, SchemaMismatch: raised when the client is opened.
    """

    def __init__(self, dsn: str | None = None, *, retry_for: timedelta = RETRY_FOR) -> None:
        check_type("retry_for", retry_for, ((timedelta,), "it must be a timedelta of 0 or more"))
        if retry_for < timedelta(0):
            raise InvalidRequest(f"retry_for is {retry_for}; it must be 0 or more")
        self._dsn = dsn
        self._retry_for = retry_for
        self._exit = ExitStack()
        self._store: Store | None = None
        self._batch_reads: BatchReads | None = None

    @classmethod
    def over(cls, store: Store) -> Self:
        """An open client that makes its calls through this store."""
        client = cls()
        client._store = client._exit.enter_context(closing(store))
        return client

    def open(self) -> Self:
        """Open the client, where a `with` block does not fit. An open client stays as it is.

        Call `close` at the end.
        """
        if self._store is None:
            self._store = self._exit.enter_context(connect(self._dsn))
        return self

    def close(self) -> None:
        """Close the client. It can be opened again."""
        self._store = self._batch_reads = None
        self._exit.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def store(self) -> Store:
        if self._store is None:
            raise InvalidRequest("the client is not open: use it in a `with` block, or call `open`")
        return self._store

    @property
    def queues(self) -> Queues:
        """The queues of the database: create, change, list, show, pause, resume, drain, delete."""
        return Queues(self.store)

    @property
    def requests(self) -> Requests:
        """Change the requests that match a filter: cancel, requeue, reprioritise and others."""
        return Requests(self.store)

    @overload
    def get(self, request_id: int) -> Handle[Any]: ...

    @overload
    def get(self, request_id: int, task: Task[..., R]) -> Handle[R]: ...

    def get(self, request_id: int, task: Task[..., Any] | None = None) -> Handle[Any]:
        """A handle of the request with this id. This call does not check that the request exists.

        Args:
            task: the task of the request. Its return annotation decides what `result` returns;
                without a task, `result` returns plain JSON values.

        Raises:
            InvalidRequest: the id is not a number.
        """
        check_type("request_id", request_id, ((int,), "it must be the number of a request"))
        decode = decode_plain if task is None else task.parameters.result
        return Handle(request_id, None, None, self.store, decode)

    def batch(self, batch_id: str) -> Batch:
        """The batch or load with this id. This call does not check that it exists."""
        if self._batch_reads is None:
            self._batch_reads = BatchReads(self.store)
        return Batch(batch_id, self._batch_reads)

    def find(
        self,
        text: str | None = None,
        /,
        *,
        limit: int = 100,
        after: int | None = None,
        **filters: Unpack[Filter],
    ) -> Found:
        """Find requests in the queues and in the history, the newest first.

        A call reads at most 10,000 requests of each table. So it may return few requests or none,
        although there are more. Then pass the `after` of the returned value to the next call.

            page = client.find("queue:images status:failed error:Timeout")
            more = client.find("queue:images status:failed error:Timeout", after=page.after)

        It needs the rights of rowlease_reader.

        Args:
            text: a filter such as `queue:images status:failed,pending age>1h`; see
                `rowlease.filters.language.parse`.
            limit: the maximum number of requests to return, from 1 to 10,000.
            after: the attribute `after` of an earlier call's return value; None begins with the
                newest request.
            filters: filters as typed values; see `Filter`. A request must match all of them, and
                the text.

        Raises:
            TypeError: the name of a filter is unknown.
            WrongFilter: the text is wrong; the message points at the wrong part.
            InvalidRequest: the value of an argument is wrong.
            StoreError: the database cannot be reached, or refuses access (AccessDenied).
        """
        return find(self.store, text, limit, after, filters)

    def bind(self, connection: Any) -> BoundProducer:
        """A producer with the same enqueue methods, which enqueues as part of your transaction.

        The requests exist if and only if the transaction commits. After QueueFull the transaction
        can go on. After any other StoreError, or an InvalidRequest that the database raised, roll
        the transaction back. On SQL Server, an error may have ended the transaction at the server;
        then this producer closes the connection.

        Args:
            connection: your psycopg, psycopg2, Django or pyodbc connection, or your SQLAlchemy
                Connection or Session.

        Raises:
            ConfigError: connection is None.
        """
        if connection is None:  # the store would enqueue in a transaction of its own
            raise ConfigError("connection is None; give the connection of your transaction")
        return BoundProducer(self.store, connection)

    def _send(self, call: EnqueueCall[R]) -> list[Handle[R]]:
        store = self.store
        with call.within_middleware():
            answers = Sending(store, call, self._retry_for).send()
        return call.handles(answers, store)

    def _send_batch(self, call: BatchCall) -> Batch:
        with call.within_middleware():
            answers = Sending(self.store, call, self._retry_for).send()
        return replace(self.batch(call.batch_id), _then=call.then(answers, self.store))
