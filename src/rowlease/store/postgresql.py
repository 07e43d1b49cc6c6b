"""The store on PostgreSQL: call routines, map rows, map errors. psycopg 3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn, cast

import psycopg
from psycopg import errors as pg
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    QueueFull,
    RoutineError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from rowlease.store import redact
from rowlease.store.calls import Store
from rowlease.store.libpq import Connector, libpq_dsn
from rowlease.store.routines import load_routines

#: SQLSTATEs of our own (sql/README.md) that say the request itself is wrong.
INVALID_REQUEST = {"RL002", "RL003", "RL004", "RL006", "RL007", "RL008", "RL009", "RL010", "RL013"}
QUEUE_FULL = "RL005"
#: What a server says that another one may stand behind by now; the connection is given up.
READ_ONLY = pg.ReadOnlySqlTransaction
#: SQLSTATE classes that psycopg counts among connection troubles and that are none: a limit of the
#: program, an object that is not in the state for it.
REFUSALS = ("54", "55")


class PostgresStore(Store):
    """See `rowlease.store.Store`."""

    def __init__(self, dsn: str, application_name: str) -> None:
        self._connect = Connector(libpq_dsn(dsn), application_name)
        self.where = redact(dsn)
        self._routines = load_routines("postgresql")
        self._calls: dict[tuple[str, ...], tuple[str, list[tuple[str, ArrayLiteral]]]] = {}
        # SQLAlchemy's pool, because it serves any DBAPI driver and raises the driver's own errors.
        # There is nothing to reset: every call is its own transaction.
        self._pool = QueuePool(
            self._connect,  # type: ignore[arg-type]
            pool_size=5,
            max_overflow=28,
            timeout=30,
            reset_on_return=None,
        )

    @property
    def can_notify(self) -> bool:
        return not self._connect.is_proxied

    def close(self) -> None:
        self._pool.dispose()

    # -- calling ---------------------------------------------------------------------------------

    def _call(self, name: str, connection: Any = None, /, **arguments: Any) -> list[Any]:
        """Call a routine; a connection of the caller's keeps its own transaction."""
        key = (name, *arguments)
        if key not in self._calls:
            params = self._routines[name].params
            given = ", ".join(f"{arg} => %({arg})s::{params[arg]}" for arg in arguments)
            arrays = [(arg, LITERALS[params[arg]]) for arg in arguments if params[arg] in LITERALS]
            self._calls[key] = f"select * from rowlease.{name}({given})", arrays  # noqa: S608
        text, arrays = self._calls[key]
        for each, literal in arrays:
            arguments[each] = literal(arguments[each])
        try:
            if connection is not None:
                return _driver_connection(connection).execute(text, arguments).fetchall()
            with self.connection() as own:
                return own.execute(text, arguments, binary=True).fetchall()
        except psycopg.Error as error:
            self._raise(error)
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"a text holds half of a Unicode character: {error}") from error

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """One of the pool, in autocommit; what psycopg raises in the block becomes our error."""
        try:
            pooled = self._pool.connect()
        except psycopg.Error as error:
            self._raise(error)
        except PoolTimeout as error:
            raise StoreUnavailable("all of the store's connections are in use") from error
        try:
            yield cast("psycopg.Connection", pooled.driver_connection)
        except psycopg.Error as error:
            gone = cast("psycopg.Connection", pooled.driver_connection).closed
            if gone or isinstance(error, READ_ONLY):
                pooled.invalidate()
            self._raise(error)
        finally:
            pooled.close()

    def _raise(self, error: psycopg.Error) -> NoReturn:
        """Raise what rowlease calls this error, with the driver's as its cause."""
        state = error.sqlstate or ""
        said = error.diag.message_primary or str(error).strip().splitlines()[0]
        if error.diag.message_hint:
            said = f"{said}; {error.diag.message_hint}"
        if state == QUEUE_FULL:
            raise QueueFull(said) from error
        if state in INVALID_REQUEST:
            raise InvalidRequest(said) from error
        if state == "RL001":
            raise RoutineError(said) from error
        if state == "22P02":
            detail = error.diag.message_detail  # what PostgreSQL itself adds; a routine has said it
            raise InvalidRequest(
                f"the payload or result is not JSON: {detail}" if detail else said
            ) from error
        if isinstance(error, pg.UntranslatableCharacter | pg.CharacterNotInRepertoire) or (
            isinstance(error, psycopg.DataError) and not state
        ):
            raise InvalidRequest(
                f"a text holds a character the database refuses: {said}"
            ) from error
        if isinstance(error, pg.NumericValueOutOfRange | pg.DatetimeFieldOverflow) or (
            error.diag.constraint_name == "queue_due"
        ):
            raise InvalidRequest(f"a number, time or delay is out of range: {said}") from error
        if isinstance(error, pg.StringDataRightTruncation):
            raise InvalidRequest(f"a name or key is too long: {said}") from error
        if isinstance(error, pg.InsufficientPrivilege):
            raise AccessDenied(
                f"{said} at {self.where}; grant its user rowlease_producer, rowlease_worker, "
                "rowlease_operator or rowlease_reader"
            ) from error
        if isinstance(error, pg.UndefinedFunction | pg.UndefinedTable | pg.InvalidSchemaName):
            raise SchemaMismatch(
                f"the database at {self.where} lacks what this version calls ({said}); "
                "run `rowlease migrate`"
            ) from error
        if isinstance(
            error,
            pg.DeadlockDetected | pg.SerializationFailure | pg.LockNotAvailable | pg.QueryCanceled,
        ):
            raise StoreConflict(said) from error
        if isinstance(error, READ_ONLY):
            raise StoreUnavailable(
                f"the server at {self.where} is read-only ({said}); it may be a standby: name the "
                "primary, or all of them and target_session_attrs=read-write, in the DSN"
            ) from error
        if isinstance(error, pg.UniqueViolation) and (
            error.diag.constraint_name == "queue_group_in_flight"
        ):
            raise StoreConflict("two requests of one group were claimed at once") from error
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (
            not state.startswith(REFUSALS)
        ):
            raise StoreUnavailable(
                f"cannot reach the database at {self.where}: {said}; check the DSN and that the "
                "server is up"
            ) from error
        raise StoreError(f"{said} ({state or type(error).__name__})") from error

    def doorbell(self, queues: Sequence[str], *, room: bool = False) -> PostgresDoorbell:
        try:
            return PostgresDoorbell(self._connect(), queues, room)
        except psycopg.Error as error:
            self._raise(error)


class PostgresDoorbell:
    """LISTEN on a connection of its own; see `rowlease.store.Doorbell`.

    An idle worker holds each queue's advisory lock in shared mode; the routine `wake_workers` sends
    a NOTIFY only while somebody does.
    """

    def __init__(self, connection: psycopg.Connection, queues: Sequence[str], room: bool) -> None:
        self._connection = connection
        self._queues = list(queues)
        connection.execute("select rowlease.listen(%s)", (room,))
        self._idle = False

    def announce_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._connection.execute(
                "select rowlease.announce_idle(%s::text[], %s)", (self._queues, idle)
            )
            self._idle = idle

    def wait(self, timeout: timedelta) -> bool:
        deadline = time.monotonic() + timeout.total_seconds()
        while True:  # one channel serves all queues: it may be another's
            left = max(0.0, deadline - time.monotonic())
            rung = self._connection.notifies(timeout=left, stop_after=1)
            if any(notify.payload in self._queues for notify in rung):
                return True
            if time.monotonic() >= deadline:
                return False

    def close(self) -> None:
        self._connection.close()


def text_array(values: Sequence[str | None] | None) -> str | None:
    """PostgreSQL's literal of a text[]; psycopg makes the same with ten times the work."""
    if values is None:
        return None
    quoted = [
        "null" if each is None else '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for each in values
    ]
    return "{" + ",".join(quoted) + "}"


def bigint_array(values: Sequence[int | None] | None) -> str | None:
    """PostgreSQL's literal of a bigint[]; psycopg makes the same with seven times the work."""
    return None if values is None else f"{{{','.join(map(str, values))}}}".replace("None", "null")


ArrayLiteral = Callable[[Any], str | None]
LITERALS: dict[str, ArrayLiteral] = {"text[]": text_array, "bigint[]": bigint_array}


def _driver_connection(connection: Any) -> psycopg.Connection:
    """The psycopg connection inside what a caller hands over: psycopg's, or SQLAlchemy's.

    Raises:
        ConfigError: it is neither.
    """
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    # A Connection, which holds the pooled one; psycopg's has a `connection` too, which is another.
    if hasattr(connection, "connection") and not isinstance(connection, psycopg.Connection):
        if not connection.in_transaction():
            connection.begin()  # as its own execute does, or its rollback would not reach us
        connection = connection.connection.driver_connection
    if isinstance(connection, psycopg.Connection):
        return connection
    raise ConfigError(
        f"connection must be a psycopg connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
