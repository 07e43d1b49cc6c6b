"""The observations that `rowlease engines verify` makes on a server, besides calling routines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, NamedTuple


class Lock(NamedTuple):
    """Locks of one session: how many of a kind, such as KEY, in a mode, such as X, on a table."""

    table: str
    kind: str
    mode: str
    num_locks: int


class Scan(NamedTuple):
    """A statement of a routine whose plan reads a whole index."""

    routine: str
    table: str
    index_name: str


class Plans(NamedTuple):
    """Plans of our routines.

    Attributes:
        refused: the routines for which the server makes no plan, each with the error.
    """

    num_routines: int
    num_statements: int
    scans: list[Scan]
    refused: tuple[str, ...] = ()


class WaitCounts(NamedTuple):
    """What the server has counted since it started: deadlocks, and locks that were not granted."""

    deadlocks: int
    lock_timeouts: int


class Observer(ABC):
    """One database, with the user's own rights."""

    @abstractmethod
    def server(self) -> dict[str, str]:
        """The version and the relevant settings. An unreadable setting has the reason instead."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """A connection of the driver with an open transaction, which is rolled back at the end."""

    @abstractmethod
    def stage(self, run_number: int, num_rows: int) -> None:
        """Write rows of a load that promote moves into the queue, as any program can."""


class LockObserver(Observer):
    """An observer that also sees locks and plans."""

    @abstractmethod
    def call(self, connection: Any, routine: str, **arguments: Any) -> list[Any]:
        """Call a routine in the connection's transaction; returns its rows."""

    @abstractmethod
    def keep_versions(self, connection: Any) -> bool:
        """Have the server keep old versions of rows until the connection's transaction ends.

        Returns:
            Whether the database permits this.
        """

    @abstractmethod
    def wait(self, seconds: float, limit: float) -> None:
        """Have the server do nothing for so long, in a statement with this limit.

        Raises:
            TimeoutError: the limit has passed.
        """

    @abstractmethod
    def locks(self, connection: Any) -> list[Lock]:
        """The locks that the connection's transaction holds."""

    @abstractmethod
    def plans(self) -> Plans:
        """The plans of our routines in the plan cache, except those that read all on purpose."""

    @abstractmethod
    def compiled(self) -> Plans:
        """The plans of our public routines, which are compiled now and not executed."""

    @abstractmethod
    def waits(self) -> WaitCounts:
        """The deadlocks and lock time-outs that the server has counted."""

    @abstractmethod
    def num_escalations(self) -> int:
        """The number of locks that became a lock on a whole table since the server started."""
