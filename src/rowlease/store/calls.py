"""The base of the store's roles: all calls of routines go through it.

The store of each engine implements `_call`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, Self, TypeVar, overload

from rowlease.errors import SchemaMismatch
from rowlease.model import Failure, Held, LeasedRequest, NewRequest, Outcome
from rowlease.store import deadlines
from rowlease.store.revisions import Schema, check_schema
from rowlease.store.shared_listener import SharedListener

#: Outcomes by their text. A lookup is fifteen times as fast as `Outcome(text)`.
OUTCOMES = {each.value: each for each in Outcome}
#: The columns that most routines return.
OUTCOME_COLUMNS = ("request_id", "outcome")

T = TypeVar("T")
V = TypeVar("V", bound=NamedTuple)


class Notifications(Protocol):
    """A connection on which notifications arrive. Each means that requests may be waiting.

    Attributes:
        cancelled: the ids of requests that were cancelled while they ran, as far as notified. The
            caller removes them.
    """

    cancelled: list[int]

    def announce_idle(self, idle: bool) -> None:
        """Announce whether this worker is idle. Producers notify only idle workers."""

    def wait(self, timeout: timedelta) -> bool:
        """Block until requests may be waiting (return True).

        Returns False if the time has elapsed, or if running requests were cancelled.
        """

    def close(self) -> None: ...


class Calls(ABC):
    """The base of every role of a store.

    Calls are synchronous and may be made from several threads. Each call uses one connection of a
    small pool and is a transaction of its own, unless the caller passes a `connection`. Each call
    on the pool has a deadline (`rowlease.store.deadlines`), which covers the wait for a connection
    and the whole answer. If a call misses its deadline, its connection is closed. A call on the
    caller's connection has only the time limits of that connection.

    Raises:
        StoreTimeout, StoreUnavailable, StoreConflict, SchemaMismatch, AccessDenied, InvalidRequest,
        QueueFull, RoutineError: see `rowlease.errors`. The driver's exception is the `__cause__`.
    """

    #: The DSN without the password, for messages.
    where: str
    #: The DSN with its password, for another store of the same database.
    dsn: str
    #: Wakes callers that wait for the end of a request. The key is the request's id as a string. A
    #: notification may be missing, for example if the worker of a request died. So callers must
    #: also poll.
    finished: SharedListener
    #: Wakes callers that wait for room in a queue. The key is the queue's name.
    room: SharedListener
    #: The default time limit of a call.
    _call_timeout: timedelta
    #: The deadline that `within` has set for all calls; None means the defaults.
    _timeout: timedelta | None = None
    #: The block around each call on the pool, by the routine's name.
    _monitor: Callable[[str], AbstractContextManager[Any]] = nullcontext
    #: Whether a call may return before its commit is on disk.
    _is_commit_asynchronous = False

    def within(self, timeout: timedelta) -> Self:
        """A copy of this store with this deadline for every call, also for calls of long routines.

        The copy shares the connection pool. A copy takes a microsecond, and is safe in any thread.
        """
        bounded = copy.copy(self)
        bounded._timeout = timeout
        return bounded

    def monitored(self, monitor: Callable[[str], AbstractContextManager[Any]]) -> Self:
        """A copy of this store that makes each call in the block of `monitor(name)`."""
        monitored = copy.copy(self)
        monitored._monitor = monitor
        return monitored

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless this version works with the database's schema."""
        try:
            found = self._values(Schema, "schema_version")
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"the database at {self.where} has no rowlease schema; run `rowlease migrate`"
            ) from error
        check_schema(found[0] if found else None, self.where)

    @property
    @abstractmethod
    def can_notify(self) -> bool:
        """Whether producers can notify idle workers. The value is known after the first call."""

    @abstractmethod
    def listen(self, queues: Sequence[str]) -> Notifications:
        """Listen for notifications of these queues, on a separate connection."""

    @abstractmethod
    def in_transaction(self, work: Callable[[Any], T]) -> T:
        """Make several calls in one transaction, which is rolled back if one raises an exception.

        Args:
            work: a function of a connection, which it gives to each call.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every connection. The store cannot be used afterwards."""

    def _time_for(self, routine: str) -> timedelta:
        return self._timeout or deadlines.deadline_of(routine, self._call_timeout)

    @abstractmethod
    def _call(
        self, name: str, connection: Any = None, columns: tuple[str, ...] = (), /, **arguments: Any
    ) -> list[Any]:
        """All rows that a routine returns.

        Args:
            connection: the caller's connection; None means one of the pool.
            columns: the columns to return, in the routine's order; empty means all.
        """

    @abstractmethod
    async def _call_async(
        self, name: str, connection: Any, columns: tuple[str, ...], /, **arguments: Any
    ) -> list[Any]:
        """All rows that a routine returns, called on the caller's asyncio connection."""

    def _rows(
        self, columns: tuple[str, ...], name: str, connection: Any = None, /, **arguments: Any
    ) -> list[Any]:
        """All rows that a routine returns, with the columns that this version knows.

        A later version of the routine may add columns at the end, which this version ignores.
        """
        rows = self._call(name, connection, columns, **arguments)
        wide = rows and len(rows[0]) > len(columns)
        return [row[: len(columns)] for row in rows] if wide else rows

    def _values(self, kind: type[V], name: str, /, **arguments: Any) -> list[V]:
        """All rows that a routine returns, each as a value of `rowlease.model`."""
        rows = self._rows(kind._fields, name, **arguments)
        return [kind._make(row) for row in rows]


@overload
def to_milliseconds(duration: timedelta) -> int: ...
@overload
def to_milliseconds(duration: None) -> None: ...
@overload
def to_milliseconds(duration: timedelta | None) -> int | None: ...
def to_milliseconds(duration: timedelta | None) -> int | None:
    """A duration as an argument of a routine."""
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def to_timedelta(milliseconds: int) -> timedelta:
    """A duration that a routine returned."""
    return timedelta(milliseconds=milliseconds)


def replace_unstorable(text: str) -> str:
    """The text without NUL and lone surrogates, so that any database can store it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def details_of(failures: Sequence[Failure]) -> dict[str, list[str | None] | None]:
    """The types and tracebacks of failures as parameters.

    Both parameters are None if no failure has a type or a traceback.
    """
    details = [
        (
            f.error_type and replace_unstorable(f.error_type),
            f.traceback and replace_unstorable(f.traceback),
        )
        for f in failures
    ]
    if not any(map(any, details)):
        return {"p_error_types": None, "p_tracebacks": None}
    types, tracebacks = zip(*details, strict=True)
    return {"p_error_types": list(types), "p_tracebacks": list(tracebacks)}


def values_of(request: NewRequest) -> dict[str, Any]:
    """A request as arguments of a routine that enqueues one."""
    return {
        "p_kind": request.kind,
        "p_payload": request.payload,
        "p_priority": request.priority,
        "p_delay_ms": to_milliseconds(request.delay),
        "p_due_time": request.due_time,
        "p_dedup_key": request.dedup_key,
        "p_group_key": request.group_key,
        "p_max_attempts": request.max_attempts,
        "p_retry_base_ms": to_milliseconds(request.retry_base),
        "p_headers": request.headers,
    }


def leases(held: Sequence[Held | LeasedRequest]) -> dict[str, list[int]]:
    """The parameters that identify leases."""
    return {
        "p_request_ids": [h.request_id for h in held],
        "p_lock_tokens": [h.lock_token for h in held],
    }


def outcomes_of(rows: list[Any]) -> list[Outcome]:
    """The outcomes in rows with the columns OUTCOME_COLUMNS."""
    return [OUTCOMES[outcome] for _, outcome in rows]
