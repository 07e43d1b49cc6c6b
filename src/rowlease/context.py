"""What a running task can ask about its own attempt."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Protocol, overload

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.model import Held, LeasedRequest
from rowlease.tasks import encoded


class ExecutorLink(Protocol):
    """What an executor knows about its n-th request."""

    def is_asked_to_stop(self, number: int) -> bool: ...

    def lease_ends(self, number: int) -> float | None: ...

    def report_progress(self, number: int, fraction: float, note: str) -> None: ...


class Connection(Protocol):
    """A connection of psycopg, pyodbc or SQLAlchemy, or a session of SQLAlchemy."""

    def commit(self) -> None: ...


class AsyncConnection(Protocol):
    """The same for asyncio."""

    def commit(self) -> Coroutine[Any, Any, None]: ...


class Context:
    """One attempt at a request, as the task that runs it sees it; `current` gives it.

    Attributes:
        request_id: the id of the request.
        lock_token: the fencing token of this attempt: each claim of the request raises it.
        attempt: 1 for the first.
        max_attempts: how many failed attempts make the request a dead letter.
    """

    __slots__ = ("_ends", "_link", "_number", "attempt", "lock_token", "max_attempts", "request_id")

    def __init__(
        self,
        request_id: int,
        lock_token: int,
        attempt: int,
        max_attempts: int,
        number: int,
        ends: float,
        link: ExecutorLink,
    ) -> None:
        self.request_id = request_id
        self.lock_token = lock_token
        self.attempt = attempt
        self.max_attempts = max_attempts
        self._number = number
        self._ends = ends
        self._link = link

    @classmethod
    def of(cls, request: LeasedRequest, number: int, ends: float, link: ExecutorLink) -> Context:
        """The context for the task that runs this request."""
        attempt = (request.lock_token, request.num_attempts, request.max_attempts)
        return cls(request.request_id, *attempt, number, ends, link)

    @property
    def should_stop(self) -> bool:
        """Should the task stop? A long task checks this now and then, and raises or returns.

        True if the request was cancelled, its lease is lost (then the outcome does not count), or
        the worker is draining.
        """
        return self._link.is_asked_to_stop(self._number)

    @property
    def lease_seconds_left(self) -> float:
        """Seconds until the lease ends; the worker renews it when a third of it has passed."""
        ends = self._link.lease_ends(self._number)
        return (self._ends if ends is None else ends) - now()

    @overload
    def complete(self, connection: Connection, result: object = None) -> None: ...

    @overload
    def complete(
        self, connection: AsyncConnection, result: object = None
    ) -> Coroutine[Any, Any, None]: ...

    def complete(self, connection: Any, result: object = None) -> Any:
        """Complete this request in the open transaction of your connection.

        The effects of the transaction and the completion commit together or not at all, so the
        effects happen exactly once, however often the task runs. Call it last, then commit: until
        then the lease cannot be renewed, so the commit must come before the lease ends. After the
        commit, what the task returns or raises changes nothing. After a rollback, it decides how
        the attempt ends, as always.

        Args:
            connection: to the request's database, with the rights of `rowlease_worker`: one of
                psycopg or pyodbc, or a connection or session of SQLAlchemy. With an asyncio
                connection of psycopg or SQLAlchemy, await the call.
            result: JSON, at most 1 MiB.

        Raises:
            LeaseLost: another worker may own the request, or it was completed before: roll back.
            ValueError: the result is not JSON, or too large.
            ConfigError: the connection is in autocommit mode, or of another kind.
            Exceptions of the driver or SQLAlchemy.
        """
        from rowlease.store.completion import complete

        text = encoded(result, f"request {self.request_id}")
        return complete(connection, Held(self.request_id, self.lock_token), text)

    def progress(self, fraction: float, note: str = "") -> None:
        """Report how far this attempt is; the table `progress` shows it.

        It costs about a microsecond: the worker writes the latest report about once a second, so
        an attempt of less than a second may never show.

        Args:
            fraction: 0 to 1; other values are clamped.
            note: a short text; at most 400 bytes are kept.
        """
        self._link.report_progress(self._number, min(1.0, max(0.0, fraction)), note)


running: ContextVar[Context] = ContextVar("rowlease.running")


def current() -> Context:
    """The attempt that this code runs in.

    Raises:
        RowleaseError: no worker runs this code.
    """
    try:
        return running.get()
    except LookupError:
        raise RowleaseError("no request is being run here: a worker calls the task") from None
