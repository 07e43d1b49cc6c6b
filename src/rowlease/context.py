"""The context of a running task: its request, its lease, and the calls that it may make."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from rowlease.clock import now
from rowlease.errors import RowleaseError, Snooze
from rowlease.model import Held
from rowlease.tasks import headers
from rowlease.tasks.chains import successor_of
from rowlease.tasks.task import encode_result

if TYPE_CHECKING:
    from rowlease.client.async_client import AsyncBoundProducer, AsyncClient
    from rowlease.client.client import BoundProducer, Client

T = TypeVar("T")


class SharedByTasks(Protocol):
    """What the tasks of a process share; `rowlease.lifespans.Shared` implements it."""

    def state(self, kind: type[T]) -> T: ...
    @property
    def client(self) -> Client: ...
    @property
    def async_client(self) -> AsyncClient: ...
    def check_fork(self) -> None: ...


class ExecutorLink(Protocol):
    """Connects a context with its executor. `number` identifies a request of the executor."""

    @property
    def shared(self) -> SharedByTasks: ...

    def is_asked_to_stop(self, number: int) -> bool: ...

    def lease_ends(self, number: int) -> float | None: ...

    def report_progress(self, number: int, fraction: float, note: str) -> None: ...


class AttemptedRequest(Protocol):
    """What a task may know of its request; `LeasedRequest` documents it."""

    @property
    def request_id(self) -> int: ...
    @property
    def queue_name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def lock_token(self) -> int: ...
    @property
    def num_attempts(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def load_id(self) -> str | None: ...
    @property
    def headers(self) -> str | None: ...
    @property
    def payload(self) -> str | bytes: ...


class CallerConnection(Protocol):
    """A psycopg, pyodbc or SQLAlchemy connection, or a SQLAlchemy session."""

    def commit(self) -> None: ...


class AsyncConnection(Protocol):
    """A psycopg or SQLAlchemy connection for asyncio, or a SQLAlchemy session for asyncio."""

    def commit(self) -> Coroutine[Any, Any, None]: ...


class Context:
    """One attempt at a request. In a task, `current` returns it.

    Attributes:
        has_reported: whether the task has called `complete` or `snooze`. Then the worker does not
            complete the request when the task returns.
    """

    __slots__ = ("_ends", "_link", "_number", "_request", "has_reported")

    def __init__(
        self, request: AttemptedRequest, number: int, ends: float, link: ExecutorLink
    ) -> None:
        self._request = request
        self._number = number
        self._ends = ends
        self._link = link
        self.has_reported = False

    @property
    def request_id(self) -> int:
        """The id of the request."""
        return self._request.request_id

    @property
    def queue_name(self) -> str:
        """The queue that the request was claimed from."""
        return self._request.queue_name

    @property
    def kind(self) -> str:
        """The name of the task."""
        return self._request.kind

    @property
    def load_id(self) -> str | None:
        """The id of the load or of the batch that the request belongs to; None if there is none."""
        return self._request.load_id

    @property
    def lock_token(self) -> int:
        """The fencing token of this attempt. Each claim of the request raises the token."""
        return self._request.lock_token

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._request.num_attempts

    @property
    def max_attempts(self) -> int:
        """The number of failed attempts after which the request is a dead letter."""
        return self._request.max_attempts

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request; empty if it has none."""
        return headers.decode_headers(self._request.headers)

    @property
    def should_stop(self) -> bool:
        """True if the task should stop; a long task checks this regularly, and returns or raises.

        The reason is that the request was cancelled, that the worker is draining, or that the lease
        is lost. After a lost lease, the outcome of the task is ignored.
        """
        return self._link.is_asked_to_stop(self._number)

    @property
    def lease_seconds_left(self) -> float:
        """Seconds until the lease ends. The worker renews a lease after a third of its time."""
        ends = self._link.lease_ends(self._number)
        return (self._ends if ends is None else ends) - now()

    def state(self, kind: type[T]) -> T:
        """The value of this type that a `lifespan` has made in this process.

        Raises:
            RowleaseError: no lifespan has made such a value.
        """
        return self._link.shared.state(kind)

    @property
    def client(self) -> Client:
        """A client of the worker's database, open for as long as the process runs tasks.

        It connects when it is first used. It tries an enqueue again as every client does, so that a
        retried task enqueues again unless its requests have a dedup key or a receipt.
        """
        return self._link.shared.client

    @property
    def async_client(self) -> AsyncClient:
        """The same as `client`, for coroutines."""
        return self._link.shared.async_client

    @overload
    def bind(self, connection: CallerConnection) -> BoundProducer: ...

    @overload
    def bind(self, connection: AsyncConnection) -> AsyncBoundProducer: ...

    def bind(self, connection: Any) -> Any:
        """A producer that enqueues in the open transaction of your connection.

        With `complete` in the same transaction, what a task enqueues is enqueued exactly once.
        `Client.bind` and `AsyncClient.bind` list the libraries.
        """
        from rowlease.store.transaction import is_for_asyncio

        return (self.async_client if is_for_asyncio(connection) else self.client).bind(connection)

    @overload
    def complete(self, connection: CallerConnection, result: object = None) -> None: ...

    @overload
    def complete(
        self, connection: AsyncConnection, result: object = None
    ) -> Coroutine[Any, Any, None]: ...

    def complete(self, connection: Any, result: object = None) -> Any:
        """Complete this request in the open transaction of your connection.

        The effects of the transaction and the completion are committed together or not at all. So
        the effects happen exactly once, however often the task runs.

        Call this last, and commit before the lease ends, because the lease cannot be renewed
        between this call and the commit. After the commit, the return value and exceptions of the
        task are ignored. If the transaction is not committed, the attempt has failed, even if the
        task returns: a return never completes a request whose effects may be lost.

        In a chain, the same transaction enqueues the next link with this `result`.

        Args:
            connection: a connection to the database of the request, with the rights of
                `rowlease_worker`. `Client.bind` and `AsyncClient.bind` list the libraries. With an
                asyncio connection, await the call.
            result: the result; at most 1 MiB of JSON.

        Raises:
            LeaseLost: another worker may own the request, or the request was already completed.
                Roll back.
            ValueError: the result cannot be written as JSON, or is too large.
            ConfigError: the connection is in autocommit mode, or its type is not supported; or the
                task has forked this process.
            Exceptions of the library.
        """
        from rowlease.store.completion import complete

        text = encode_result(result, f"request {self.request_id}")
        successor = successor_of(self._request.payload, self._request.headers, text)
        self._link.shared.check_fork()
        self.has_reported = True
        return complete(connection, Held(self.request_id, self.lock_token), text, successor)

    @overload
    def snooze(self, connection: CallerConnection, after: timedelta, reason: str = "") -> None: ...

    @overload
    def snooze(
        self, connection: AsyncConnection, after: timedelta, reason: str = ""
    ) -> Coroutine[Any, Any, None]: ...

    def snooze(self, connection: Any, after: timedelta, reason: str = "") -> Any:
        """Have this request run again later, in the open transaction of your connection.

        The effects of the transaction and the snooze are committed together or not at all. No
        attempt is counted. Without effects to commit, raise `Snooze` instead. The rules of
        `complete` for the connection, the commit and exceptions apply here, too.

        Args:
            connection: see `complete`.
            after: the time until the request is due again, at least a second.
            reason: the text to store in the table `attempt`. `explain` shows it.
        """
        from rowlease.store.completion import snooze

        asked = Snooze(after, reason)  # a TypeError if it is no timedelta
        self._link.shared.check_fork()
        self.has_reported = True
        return snooze(connection, Held(self.request_id, self.lock_token), asked.after, reason)

    def progress(self, fraction: float, note: str = "") -> None:
        """Report how much of this attempt is done. The table `progress` has the latest report.

        A call takes about a microsecond. The worker writes the latest report about once a second,
        so the reports of an attempt that ends within a second may never be written.

        Args:
            fraction: the part that is done, from 0 to 1. Other values are clamped.
            note: a short string, of which at most 400 bytes are kept.
        """
        self._link.report_progress(self._number, min(1.0, max(0.0, fraction)), note)


running: ContextVar[Context] = ContextVar("rowlease.running")


def current() -> Context:
    """The attempt in which this code runs.

    Raises:
        RowleaseError: this code was not called by a worker.
    """
    try:
        return running.get()
    except LookupError:
        raise RowleaseError(
            "current() works only in a task that a worker runs; in a test, run the task with "
            "rowlease.testing.drain"
        ) from None
