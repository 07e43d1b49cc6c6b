"""The common part of all calls of routines; the store of an engine implements `_call`."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol, Self, TypeVar, overload

from rowlease.errors import SchemaMismatch
from rowlease.model import (
    Corrected,
    Depth,
    Explanation,
    Failure,
    Maintained,
    Outcome,
    Schedule,
)
from rowlease.store import deadlines
from rowlease.store.revisions import Schema, check_schema
from rowlease.store.shared_listener import SharedListener

#: Outcomes by their text; a lookup is fifteen times as fast as `Outcome(text)`.
OUTCOMES = {each.value: each for each in Outcome}
#: The columns of most results.
OUTCOME = ("request_id", "outcome")

V = TypeVar("V", Corrected, Depth, Explanation, Maintained, Schedule, Schema)


class Notifications(Protocol):
    """Notifications: requests may have been enqueued."""

    def announce_idle(self, idle: bool) -> None:
        """Announce that this worker is idle, so that producers notify it, or no longer is."""

    def wait(self, timeout: timedelta) -> bool:
        """Block until a notification comes (True) or the time is over (False)."""

    def close(self) -> None: ...


class Calls(ABC):
    """The base of every role of a store.

    Synchronous; safe to call from several threads, each call on its own connection out of a small
    pool. Every call is a transaction of its own, except on the caller's `connection`. Every call
    has a deadline (`rowlease.store.deadlines`), from the wait for a connection to the last byte of
    the answer; after it the connection is closed. A call on the caller's connection has the time
    limits of that connection.

    Raises:
        StoreTimeout, StoreUnavailable, StoreConflict, SchemaMismatch, AccessDenied, InvalidRequest,
        QueueFull, RoutineError: see `rowlease.errors`; the driver's exception is the cause.
    """

    #: The DSN without the password, for messages.
    where: str
    #: Wakes those who wait for the end of a request: by its id, as text. A notification may be
    #: missing: of a request whose last worker died. So look now and then.
    finished: SharedListener
    #: Wakes those who wait for room in a queue: by its name.
    room: SharedListener
    #: How long a call may take; and the deadline that `within` has set.
    _call_timeout: timedelta
    _timeout: timedelta | None = None

    def within(self, timeout: timedelta) -> Self:
        """This store with another deadline for every call, also of long routines.

        It shares the connections, is safe to use from any thread, and costs a microsecond.
        """
        bounded = copy.copy(self)
        bounded._timeout = timeout
        return bounded

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
        """Can producers notify an idle worker, or must it poll? Known after the first call."""

    @abstractmethod
    def listen(self, queues: Sequence[str]) -> Notifications:
        """Listen for notifications of these queues, on a connection of its own.

        They come when there may be work.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every connection; the store cannot be used afterwards."""

    def _time_for(self, routine: str) -> timedelta:
        return self._timeout or deadlines.of(routine, self._call_timeout)

    @abstractmethod
    def _call(
        self, name: str, connection: Any = None, columns: tuple[str, ...] = (), /, **arguments: Any
    ) -> list[Any]:
        """All rows of a routine.

        Args:
            connection: the caller's; None: one of the pool.
            columns: those to return, in the routine's order; empty: all.
        """

    @abstractmethod
    async def _call_async(
        self, name: str, connection: Any, columns: tuple[str, ...], /, **arguments: Any
    ) -> list[Any]:
        """All rows of a routine that is called on the caller's asyncio connection."""

    def _rows(
        self, columns: tuple[str, ...], name: str, connection: Any = None, /, **arguments: Any
    ) -> list[Any]:
        """All rows of a routine, with the columns that this version knows.

        A later version may add columns at the end; clients of this version ignore them.
        """
        rows = self._call(name, connection, columns, **arguments)
        wide = rows and len(rows[0]) > len(columns)
        return [row[: len(columns)] for row in rows] if wide else rows

    def _values(self, kind: type[V], name: str, /, **arguments: Any) -> list[V]:
        """All rows of a routine, each as a value of `rowlease.model`."""
        rows = self._rows(kind._fields, name, **arguments)
        return [kind._make(row) for row in rows]


@overload
def milliseconds(duration: timedelta) -> int: ...
@overload
def milliseconds(duration: None) -> None: ...
@overload
def milliseconds(duration: timedelta | None) -> int | None: ...
def milliseconds(duration: timedelta | None) -> int | None:
    """A duration as the routines take it."""
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def duration(milliseconds: int) -> timedelta:
    """A duration as the routines return it."""
    return timedelta(milliseconds=milliseconds)


def storable(text: str) -> str:
    """Text that any database can store, without NUL and lone surrogates, for errors."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def details_of(failures: Sequence[Failure]) -> dict[str, list[str | None] | None]:
    """The types and tracebacks of errors as parameters: None if no failure has any."""
    details = [
        (f.error_type and storable(f.error_type), f.traceback and storable(f.traceback))
        for f in failures
    ]
    if not any(map(any, details)):
        return {"p_error_types": None, "p_tracebacks": None}
    types, tracebacks = zip(*details, strict=True)
    return {"p_error_types": list(types), "p_tracebacks": list(tracebacks)}


def outcomes_of(rows: list[Any]) -> list[Outcome]:
    """The outcomes in rows with the columns OUTCOME."""
    return [OUTCOMES[outcome] for _, outcome in rows]
