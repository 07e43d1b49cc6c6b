"""The store on PostgreSQL: call routines, map rows, map errors. psycopg 3."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from rowlease.errors import InvalidRequest, StoreError
from rowlease.store import deadlines
from rowlease.store.calls import milliseconds
from rowlease.store.dsn import redact
from rowlease.store.error_messages import unanswered
from rowlease.store.pool import NotConnected, Pool
from rowlease.store.postgresql.connection import (
    BoundedConnection,
    Connector,
    Unanswered,
    has_no_news,
)
from rowlease.store.postgresql.dsn import libpq_dsn
from rowlease.store.postgresql.error_codes import Error, is_read_only, our_error, unencodable
from rowlease.store.postgresql.instants import all_rows
from rowlease.store.postgresql.literals import LITERALS, ArrayLiteral
from rowlease.store.postgresql.notifications import PostgresNotifications
from rowlease.store.postgresql.transaction import driver_connection
from rowlease.store.routines import load_routines
from rowlease.store.store import Store


class PostgresStore(Store):
    """See `rowlease.store.Store`."""

    def __init__(
        self, dsn: str, application_name: str, call_timeout: timedelta = deadlines.CALL
    ) -> None:
        self._call_timeout = call_timeout
        self._connect = Connector(libpq_dsn(dsn), application_name, call_timeout)
        self.where = redact(dsn)
        self._routines = load_routines("postgresql")
        self._calls: dict[tuple[Any, ...], tuple[str, list[tuple[str, ArrayLiteral]]]] = {}
        self._pool = Pool(self._connect, has_no_news)

    @property
    def can_notify(self) -> bool:
        return not self._connect.is_proxied

    def close(self) -> None:
        self._pool.close()

    # -- calling ---------------------------------------------------------------------------------

    def _call(
        self, name: str, connection: Any = None, columns: tuple[str, ...] = (), /, **arguments: Any
    ) -> list[Any]:
        """Call a routine; on the caller's connection it is part of the transaction."""
        key = (name, columns, *arguments)
        if key not in self._calls:
            # Named columns: a prepared `select *` fails when the routine returns another column.
            wanted = ", ".join(columns) or "*"
            params = self._routines[name].params
            given = ", ".join(f"{arg} => %({arg})s::{params[arg]}" for arg in arguments)
            arrays = [(arg, LITERALS[params[arg]]) for arg in arguments if params[arg] in LITERALS]
            self._calls[key] = f"select {wanted} from rowlease.{name}({given})", arrays  # noqa: S608
        text, arrays = self._calls[key]
        for each, literal in arrays:
            arguments[each] = literal(arguments[each])
        try:
            if connection is not None:
                driver = driver_connection(connection)
                # A cursor with tuples: the connection may have another row factory.
                with psycopg.Cursor(driver, row_factory=tuple_row) as cursor:
                    return cursor.execute(text, arguments).fetchall()
            with self.connection(self._time_for(name)) as own:
                return all_rows(own.execute(text, arguments, binary=True))
        except psycopg.Error as error:
            self._raise(error)
        except UnicodeEncodeError as error:
            raise InvalidRequest(unencodable(error)) from error

    @contextmanager
    def connection(
        self, timeout: timedelta | None = None, at_server: timedelta | None = None
    ) -> Iterator[BoundedConnection]:
        """A pooled connection in autocommit mode; errors of psycopg in the block are translated.

        Args:
            timeout: to get a connection, and then for each answer; None: the store's.
            at_server: when the server cancels a statement; None: shortly before `timeout`. If that
                is later than the store's usual limit, the block is one transaction.
        """
        timeout = timeout or self._timeout or self._call_timeout
        seconds = timeout.total_seconds()
        ends = time.monotonic() + seconds
        try:
            own = self._pool.take(seconds)
        except (psycopg.Error, NotConnected) as error:
            self._raise(error)
        is_sound = True
        own.patience = ends - time.monotonic()
        try:
            if (at_server or timeout) > self._call_timeout:
                with own.transaction():
                    limit = milliseconds(at_server or deadlines.at_server(timeout))
                    own.execute(f"set local statement_timeout = {limit}")
                    yield own
            else:
                yield own
        except Unanswered as error:
            raise unanswered(seconds, self.where) from error
        except psycopg.Error as error:
            is_sound = not is_read_only(error)
            # After an ERROR the call was rolled back; if the session ended, it may have committed.
            self._raise(error, maybe_done=not _is_idle(own))
        finally:
            self._pool.give_back(own, is_sound=is_sound and _is_idle(own))

    def _raise(self, error: Error, *, maybe_done: bool = False) -> NoReturn:
        """Raise the exception of rowlease for this error, which becomes its cause."""
        found = our_error(error, self.where)
        if isinstance(found, StoreError):
            found.maybe_done = maybe_done
        raise found from error

    def listen(self, queues: Sequence[str], *, room: bool = False) -> PostgresNotifications:
        return self._listen(queues, room=room)

    def listen_finished(self, request_id: int) -> PostgresNotifications:
        return self._listen(finished=request_id)

    def _listen(self, *arguments: Any, **named: Any) -> PostgresNotifications:
        try:
            connection = self._pool.open(self._time_for("listen").total_seconds())
            return PostgresNotifications(connection, *arguments, **named)
        except (psycopg.Error, NotConnected) as error:
            self._raise(error)


def _is_idle(connection: BoundedConnection) -> bool:
    """Can it serve another call? It cannot if it is closed or in a transaction."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE
