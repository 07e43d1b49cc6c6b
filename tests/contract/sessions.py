"""Sessions: what the contract suite holds in its hands, the same on every engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import psycopg

from rowlease.store import Store
from rowlease.store.postgresql import PostgresStore

T = TypeVar("T")


class Session(Store):
    """A store on one connection, whose transaction and clock the test holds in its hands."""

    @abstractmethod
    def rows(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Rows of a table or view by snake_case names, ordered by the columns asked for."""

    @abstractmethod
    def execute(self, text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement and give its rows."""

    @abstractmethod
    def begin(self) -> None:
        """Open a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll it back."""

    @abstractmethod
    def freeze(self, time: datetime | None) -> None:
        """Stop this connection's clock at a time, or let it run again (None)."""

    @abstractmethod
    def in_background(self, call: Callable[[], T]) -> Future[T]:
        """Make the call on this session's own thread, while the test goes on."""

    @abstractmethod
    def waits_for_lock(self) -> bool:
        """Is this session's connection waiting for another's lock at this moment?"""

    @abstractmethod
    def kill(self) -> None:
        """Cut the connection as an operator or a network does."""


class PostgresSession(PostgresStore, Session):
    """See `Session`."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "contract test")
        self.dsn = dsn
        self.raw = self._connect()
        self._observer = psycopg.connect(dsn, autocommit=True)
        self._thread = ThreadPoolExecutor(1)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        try:
            yield self.raw
        except psycopg.Error as error:
            self._raise(error)

    def rows(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        names = ", ".join(columns)
        match = " and ".join(f"{name} = %({name})s" for name in where) or "true"
        places = ", ".join(str(place) for place in range(1, len(columns) + 1))
        return self._observer.execute(
            f"select {names} from rowlease.{table} where {match} order by {places}", where
        ).fetchall()

    def execute(self, text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.raw.execute(text, arguments)
        return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        self.raw.execute("begin")

    def commit(self) -> None:
        self.raw.execute("commit")

    def rollback(self) -> None:
        self.raw.execute("rollback")

    def freeze(self, time: datetime | None) -> None:
        self.raw.execute(
            "select set_config('rowlease.frozen_now', %s, false)",
            ("" if time is None else time.isoformat(),),
        )

    def in_background(self, call: Callable[[], T]) -> Future[T]:
        return self._thread.submit(call)

    def waits_for_lock(self) -> bool:
        return bool(
            self._observer.execute(
                "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'",
                (self.raw.info.backend_pid,),
            ).fetchall()
        )

    def kill(self) -> None:
        self._observer.execute(
            "select pg_terminate_backend(%s, 5000)", (self.raw.info.backend_pid,)
        )

    def close(self) -> None:
        # A test may leave a call waiting; ending the connection ends the call.
        self._observer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s",
            (self.raw.info.backend_pid,),
        )
        self._thread.shutdown()
        self.raw.close()
        self._observer.close()
        super().close()


class Clock:
    """The time of all sessions of a test; it stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.sessions: list[Session] = []

    def advance(self, by: timedelta | None = None, **parts: float) -> None:
        """Move every session's time on: `advance(seconds=31)`."""
        self.now += by if by is not None else timedelta(**parts)
        for session in self.sessions:
            session.freeze(self.now)
