"""What all calls of routines have in common; an engine's store says how one is made."""

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
    Maintained,
    Outcome,
    Request,
    Schedule,
)
from rowlease.store import deadlines
from rowlease.store.revisions import Schema, check_schema

#: By the word that a routine says; making an Enum of it takes fifteen times as long.
OUTCOMES = {each.value: each for each in Outcome}
#: The columns of most answers.
OUTCOME = ("request_id", "outcome")

V = TypeVar("V", Corrected, Depth, Explanation, Maintained, Request, Schedule, Schema)


class Notifications(Protocol):
    """The notifications of some queues: requests may have been enqueued, or there may be room."""

    def announce_idle(self, idle: bool) -> None:
        """Announce that this worker is idle, so that producers notify it, or no longer is."""

    def wait(self, timeout: timedelta) -> bool:
        """Block until a notification comes (True) or the time is over (False)."""

    def close(self) -> None: ...


class Calls(ABC):
    """What every role of a store stands on.

    Synchronous; safe to call from several threads, each call on its own connection out of a small
    pool. Every call is one transaction of its own, but for those that are given the caller's
    `connection`. Every call has a deadline (`rowlease.store.deadlines`), which counts from the wait
    for a connection to the last byte of the answer; a connection whose call ran past it is closed.
    Calls on a connection of the caller's take as long as that connection lets them.

    Raises:
        StoreTimeout, StoreUnavailable, StoreConflict, SchemaMismatch, AccessDenied, InvalidRequest,
        QueueFull, RoutineError: see `rowlease.errors`; the driver's exception is the cause.
    """

    #: The database's name for people: its DSN without the password.
    where: str
    #: How long a call may take, and what `within` has made of it.
    _call_timeout: timedelta
    _timeout: timedelta | None = None

    def within(self, timeout: timedelta) -> Self:
        """This store with another deadline for every call, long routines included.

        It shares the connections; any number may be used at once, from any thread. Cheap enough to
        be made for one call (a microsecond).
        """
        bounded = copy.copy(self)
        bounded._timeout = timeout
        return bounded

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless the database holds the schema this version works with."""
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
        """Can producers wake an idle worker, or must it poll? Sure after the first call."""

    @abstractmethod
    def listen(self, queues: Sequence[str], *, room: bool = False) -> Notifications:
        """Listen for notifications of these queues, on a connection of its own.

        They come when there may be work, or with `room` when a full queue may have room.
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
            connection: the caller's; None: one of our own.
            columns: what to answer with, in the routine's order; none named: all there is.
        """

    def _rows(
        self, columns: tuple[str, ...], name: str, connection: Any = None, /, **arguments: Any
    ) -> list[Any]:
        """All rows of a routine, of the columns that this version knows.

        A later version may add columns at the end. Where its schema is there before its code, the
        clients of this version go on.
        """
        rows = self._call(name, connection, columns, **arguments)
        wide = rows and len(rows[0]) > len(columns)
        return [row[: len(columns)] for row in rows] if wide else rows

    def _values(self, kind: type[V], name: str, /, **arguments: Any) -> list[V]:
        """All rows of a routine, each as one of our values."""
        rows = self._rows(kind._fields, name, **arguments)
        return [kind._make(row) for row in rows]


@overload
def milliseconds(duration: timedelta) -> int: ...
@overload
def milliseconds(duration: None) -> None: ...
@overload
def milliseconds(duration: timedelta | None) -> int | None: ...
def milliseconds(duration: timedelta | None) -> int | None:
    """A duration as SQL takes it."""
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def duration(milliseconds: int) -> timedelta:
    """A duration as SQL gives it."""
    return timedelta(milliseconds=milliseconds)


def storable(text: str) -> str:
    """Text any database holds, without NUL or half characters: a failure must be recordable."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def outcomes_of(rows: list[Any]) -> list[Outcome]:
    """The outcomes of OUTCOME's columns."""
    return [OUTCOMES[outcome] for _, outcome in rows]
