"""The store for PostgreSQL: calls routines, and converts rows and errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from rowlease.errors import InvalidRequest, RowleaseError, StoreConflict, StoreError
from rowlease.store import deadlines
from rowlease.store.calls import to_milliseconds
from rowlease.store.dsn import redact
from rowlease.store.error_codes import timeout_error
from rowlease.store.pool import ConnectionPool, NotConnected
from rowlease.store.postgresql.connection import (
    BoundedConnection,
    Connector,
    Unanswered,
    has_no_news,
)
from rowlease.store.postgresql.driver_errors import (
    Error,
    callers_error,
    driver_error,
    is_deadlock,
    is_read_only,
    our_error,
    unencodable,
)
from rowlease.store.postgresql.dsn import libpq_dsn
from rowlease.store.postgresql.instants import bounded_rows
from rowlease.store.postgresql.literals import LITERALS
from rowlease.store.postgresql.notifications import PostgresNotifications
from rowlease.store.postgresql.transaction import (
    RoutineCall,
    execute,
    execute_async,
    for_psycopg,
)
from rowlease.store.routines import load_routines
from rowlease.store.shared_listener import SharedListener
from rowlease.store.store import Store
from rowlease.store.transaction import CALLERS_DATABASE

T = TypeVar("T")

#: Added to a statement that is a transaction of its own.
ASYNCHRONOUS_COMMIT = ", (select set_config('synchronous_commit', 'off', true)) as setting"
#: The maximum number of tries of a call if each try ends in a deadlock.
MAX_TRIES = 3


class PostgresStore(Store):
    """See `rowlease.store.Store`."""

    def __init__(
        self, dsn: str, application_name: str, call_timeout: timedelta = deadlines.CALL
    ) -> None:
        self._call_timeout = call_timeout
        self._connect = Connector(libpq_dsn(dsn), application_name, call_timeout)
        self.dsn = dsn
        self.where = redact(dsn)
        self._routines = load_routines("postgresql")
        self._calls: dict[tuple[Any, ...], str] = {}
        self._pool = ConnectionPool(self._connect, has_no_news)
        self.finished = SharedListener(
            lambda: self._listen(listen="select rowlease.listen_finished()"),
            lambda: self.can_notify,
        )
        self.room = SharedListener(
            lambda: self._listen(listen="select rowlease.listen(true)"), lambda: self.can_notify
        )

    @property
    def can_notify(self) -> bool:
        return not self._connect.is_proxied

    def close(self) -> None:
        self.finished.close()
        self.room.close()
        self._pool.close()

    # -- calling ---------------------------------------------------------------------------------

    def _call(
        self, name: str, connection: Any = None, columns: tuple[str, ...] = (), /, **arguments: Any
    ) -> list[Any]:
        """Call a routine.

        Args:
            connection: the caller's connection; the call is part of its transaction. None means a
                pooled connection.
        """
        call = self._routine(name, columns, arguments)
        if connection is not None:
            with self._translated(connection):
                return execute(connection, call)
        key = (name, self._is_commit_asynchronous, columns, *arguments)
        if key not in self._calls:
            text = call.text(for_psycopg)
            self._calls[key] = text + ASYNCHRONOUS_COMMIT if self._is_commit_asynchronous else text
        try:
            with self._monitor(name):
                return self._call_own(self._calls[key], call.arguments, self._time_for(name))
        except UnicodeEncodeError as error:
            raise InvalidRequest(unencodable(error)) from error

    def _call_own(self, text: str, arguments: dict[str, Any], timeout: timedelta) -> list[Any]:
        """Call on a pooled connection. Repeat a call that was rolled back because of a deadlock."""
        ends = time.monotonic() + timeout.total_seconds()
        for tries_left in reversed(range(MAX_TRIES)):
            try:
                with self.connection(timeout) as own:
                    cursor = own.execute(text, arguments, binary=True)
                    try:
                        return cursor.fetchall()
                    except psycopg.DataError:
                        return bounded_rows(cursor)
            except StoreConflict as error:
                timeout = timedelta(seconds=ends - time.monotonic())
                if not tries_left or timeout <= timedelta(0) or not is_deadlock(error.__cause__):
                    raise
        raise AssertionError("unreachable")

    def in_transaction(self, work: Callable[[Any], T]) -> T:
        with self.connection(self._time_for("enqueue_many")) as own, own.transaction():
            return work(own)

    async def _call_async(
        self, name: str, connection: Any, columns: tuple[str, ...], /, **arguments: Any
    ) -> list[Any]:
        with self._translated(connection):
            return await execute_async(connection, self._routine(name, columns, arguments))

    def _routine(
        self, name: str, columns: tuple[str, ...], arguments: dict[str, Any]
    ) -> RoutineCall:
        types = self._routines[name].params
        for each, value in arguments.items():
            if literal := LITERALS.get(types[each]):
                arguments[each] = literal(value)
        return RoutineCall(name, columns, types, arguments)

    @contextmanager
    def _translated(self, connection: Any) -> Iterator[None]:
        """Convert errors of the caller's connection, which may be of any library."""
        where = self.where if isinstance(connection, BoundedConnection) else CALLERS_DATABASE
        try:
            yield
        except UnicodeEncodeError as error:
            raise InvalidRequest(unencodable(error)) from error
        except Exception as error:
            found = driver_error(error)
            if found is None:
                raise
            raise callers_error(found, where) from found

    @contextmanager
    def connection(
        self, timeout: timedelta | None = None, at_server: timedelta | None = None
    ) -> Iterator[BoundedConnection]:
        """A pooled connection in autocommit mode. Errors of psycopg in the block are converted.

        Args:
            timeout: the longest time to get a connection. After that, each answer may take the rest
                of this time. None means the store's own timeout.
            at_server: the time after which the server cancels a statement; None means shortly
                before `timeout`. If this time, or `timeout` if it is None, exceeds the store's
                `call_timeout`, the block is one transaction with this limit. Otherwise the limit of
                the session applies.
        """
        timeout = timeout or self._timeout or self._call_timeout
        seconds = timeout.total_seconds()
        ends = time.monotonic() + seconds
        try:
            own = self._pool.take(seconds)
        except (psycopg.Error, NotConnected) as error:
            self._raise(error)
        # False also if a signal handler raises, because then an answer may be under way.
        is_sound = False
        own.patience = ends - time.monotonic()
        try:
            if (at_server or timeout) > self._call_timeout:
                with own.transaction():
                    limit = to_milliseconds(at_server or deadlines.at_server(timeout))
                    own.execute(f"set local statement_timeout = {limit}")
                    yield own
            else:
                yield own
            is_sound = _is_idle(own)
        except Unanswered as error:
            self._pool.close_idle()  # they probably have the same fault
            raise timeout_error(seconds, self.where) from error
        except psycopg.Error as error:
            is_sound = _is_idle(own) and not is_read_only(error)
            if not is_sound:
                self._pool.close_idle()
            # After an ERROR, the call was rolled back. If the session ended, the call may have been
            # committed.
            self._raise(error, maybe_done=not _is_idle(own))
        except (UnicodeEncodeError, RowleaseError):
            is_sound = _is_idle(own)  # nothing was sent, or it was rolled back
            raise
        finally:
            self._pool.give_back(own, is_sound=is_sound)

    def _raise(self, error: Error, *, maybe_done: bool = False) -> NoReturn:
        """Raise rowlease's exception for this error, which becomes the `__cause__`."""
        found = our_error(error, self.where)
        if isinstance(found, StoreError):
            found.maybe_done = maybe_done
        raise found from error

    def listen(self, queues: Sequence[str]) -> PostgresNotifications:
        with self._monitor("listen"):
            return self._listen(queues)

    def _listen(self, *arguments: Any, **named: Any) -> PostgresNotifications:
        try:
            connection = self._pool.open(self._time_for("listen").total_seconds())
            return PostgresNotifications(connection, *arguments, **named)
        except (psycopg.Error, NotConnected) as error:
            self._raise(error)


def _is_idle(connection: BoundedConnection) -> bool:
    """Whether the connection can serve another call: it is open and not in a transaction."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE
