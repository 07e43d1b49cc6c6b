"""The store on SQL Server: call procedures, map rows, map errors. pyodbc, ODBC driver 18."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast

from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from rowlease.errors import ConfigError, InvalidRequest, StoreError, StoreUnavailable
from rowlease.store import redact
from rowlease.store.calls import Doorbell, Store
from rowlease.store.odbc import odbc_string, pyodbc
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver_errors import ROLLED_BACK, SERVER_BUSY, Said, our_error

if TYPE_CHECKING:
    import pyodbc as odbc

#: READ COMMITTED whatever a pool or a login trigger left behind; the procedures set it again. A
#: lock that is held longer than 10 s (by DDL, or a caller's transaction) is an error to repeat.
SESSION = "set transaction isolation level read committed; set lock_timeout 10000"
#: Seconds before a call is made again, half of it random.
PAUSES = (0.02, 0.1, 0.3, 1.0)
#: Calls that may be made twice, because the second finds the work done and says so. Not those that
#: lease: nobody would renew what the lost answer held.
REPEATABLE = frozenset({
    "complete", "fail", "abandon", "renew", "report_progress", "begin_load",
    "promote", "discard_staged", "maintain", "depth",
    "explain", "pause", "resume", "configure_queue", "worker_heartbeat", "worker_bye",
    "schema_version",
    "put_schedule", "pause_schedule", "resume_schedule", "list_schedules", "list_requests",
    "list_queues", "list_workers",
})  # fmt: skip
#: What an integer parameter holds.
RANGES = {"smallint": 2**15, "int": 2**31, "integer": 2**31, "bigint": 2**63}


class SqlServerStore(Store):
    """See `rowlease.store.Store`."""

    can_notify = False

    def __init__(self, dsn: str, application_name: str) -> None:
        self._odbc = odbc_string(dsn, application_name)
        self.where = redact(dsn)
        self._routines = load_routines("sqlserver")
        # There is nothing to reset: every call is its own transaction.
        self._pool = QueuePool(
            self._connect,
            pool_size=5,
            max_overflow=28,
            timeout=30,
            reset_on_return=None,
        )

    def _connect(self) -> odbc.Connection:
        # Autocommit, because pyodbc's own default would leave every claim uncommitted: its rows
        # would be invisible to all others for as long as the connection lives.
        connection: odbc.Connection = pyodbc().connect(self._odbc, autocommit=True, timeout=10)
        connection.execute(SESSION)
        return connection

    def close(self) -> None:
        self._pool.dispose()

    # -- calling ---------------------------------------------------------------------------------

    def _call(self, name: str, connection: Any = None, /, **arguments: Any) -> list[Any]:
        """Call a procedure; a connection of the caller's keeps its own transaction."""
        call = _Call(name, self._routines[name].params, arguments)
        if connection is not None:
            driver = driver_connection(connection)
            try:
                return call.rows(driver)
            except pyodbc().Error as error:
                self._raise(error)
        for pause in PAUSES:
            try:
                return self._call_once(call)
            except StoreError as error:
                if not self._is_repeatable(name, arguments, error):
                    raise
            time.sleep(pause * random.uniform(0.5, 1))
        return self._call_once(call)

    def _call_once(self, call: _Call) -> list[Any]:
        with self._connection() as own:
            return call.rows(own)

    def _is_repeatable(self, name: str, arguments: dict[str, Any], error: StoreError) -> bool:
        """May a call that ended so be made again without doing anything twice?"""
        if not error.transient or not isinstance(error.__cause__, pyodbc().Error):
            return False
        said = Said.by(error.__cause__)
        if said.code in ROLLED_BACK:
            return True
        if said.in_connecting:
            return said.code in SERVER_BUSY
        has_receipt = arguments.get("p_receipt_key") is not None
        return name in REPEATABLE or (has_receipt and arguments.get("p_wait_ms") is None)

    @contextmanager
    def _connection(self) -> Iterator[odbc.Connection]:
        try:
            pooled = self._pool.connect()
        except pyodbc().Error as error:
            self._raise(error)
        except PoolTimeout as error:
            raise StoreUnavailable("all of the store's connections are in use") from error
        try:
            yield cast("odbc.Connection", pooled.driver_connection)
        except pyodbc().Error as error:
            if Said.by(error).is_disconnect:
                pooled.invalidate()
                self._forget_connections()
            else:
                try:  # XACT_ABORT has done it, but for errors from before a procedure's first line
                    pooled.driver_connection.execute("if @@trancount > 0 rollback transaction")  # type: ignore[union-attr]
                except pyodbc().Error:
                    pooled.invalidate()
            self._raise(error)
        except BaseException:
            pooled.invalidate()  # nobody knows how far it got
            raise
        finally:
            pooled.close()

    def _forget_connections(self) -> None:
        """Where one connection was cut, those that lie in the pool are likely to be, too."""
        cut, self._pool = self._pool, self._pool.recreate()
        cut.dispose()

    def _raise(self, error: odbc.Error) -> NoReturn:
        """Raise what rowlease calls this error, with the driver's as its cause."""
        raise our_error(Said.by(error), self.where) from error

    def configure_queue(self, queue: str, **settings: Any) -> dict[str, Any]:
        ((found,),) = self._call(
            "configure_queue", p_queue_name=queue, p_settings=json.dumps(settings)
        )
        return cast("dict[str, Any]", json.loads(found))

    def doorbell(self, queues: Sequence[str], *, room: bool = False) -> Doorbell:
        raise ConfigError("SQL Server has no bell; a worker polls, and knows how long it may sleep")


class _Call:
    """A procedure and its arguments, as pyodbc takes them."""

    def __init__(self, name: str, params: dict[str, str], arguments: dict[str, Any]) -> None:
        odbc = pyodbc()
        self._values: list[Any] = []
        self._sizes: list[tuple[int, int, int]] = []
        places = []
        for param, kind in params.items():
            given = arguments.get(param)
            # NULL in the text: as a parameter, the driver would ask the server for its type.
            places.append("null" if given is None else "?")
            if given is not None:
                value = _written(param, kind, given)
                self._values.append(value)
                self._sizes.append(_size(odbc, kind, value))
        self._text = f"exec rowlease.{name} {', '.join(places)}"

    def rows(self, connection: odbc.Connection) -> list[tuple[Any, ...]]:
        """The first result set; the rest is read too, or a late error would be lost."""
        # Not as a context of its own: at the end of that, pyodbc commits the caller's transaction.
        with closing(connection.cursor()) as cursor:
            if self._sizes:
                cursor.setinputsizes(self._sizes)
            cursor.execute(self._text, self._values)
            return result(cursor)


def result(cursor: odbc.Cursor) -> list[tuple[Any, ...]]:
    """The rows of the first result set, when all of them have been read; times are UTC."""
    rows: list[tuple[Any, ...]] | None = None
    while True:
        if cursor.description is not None:
            found = cursor.fetchall()
            if rows is None:
                rows = [
                    tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row)
                    for row in found
                ]
        if not cursor.nextset():
            return rows or []


def _written(param: str, kind: str, value: Any) -> bool | int | str:
    """An argument as the procedure takes it: arrays as JSON text, times as ISO text in UTC.

    Raises:
        InvalidRequest: SQL Server would refuse it, or silently cut it.
    """
    if isinstance(value, list | tuple):
        for each in value:
            if isinstance(each, str):
                _check_text(each)
        return json.dumps(value, ensure_ascii=False, default=_iso)
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, str):
        _check_text(value)
        length = kind.partition("(")[2].rstrip(")")
        if length.isdigit() and len(value.encode("utf-16-le")) > 2 * int(length):
            raise InvalidRequest(
                f"a name or key is too long: {param.removeprefix('p_')} takes {length} characters"
            )
        return value
    if isinstance(value, bool):
        return value
    bound = RANGES.get(kind, 2**63)
    if not -bound <= value < bound:
        raise InvalidRequest(
            f"a number, time or delay is out of range: {param.removeprefix('p_')} is no {kind}"
        )
    return int(value)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a text holds half of a Unicode character: {error}") from error
    if "\0" in text:
        raise InvalidRequest("a text holds a character the database refuses: NUL (0x00)")


def _iso(time: datetime) -> str:
    # A time without a zone is UTC, as it is for a PostgreSQL session of rowlease's.
    try:
        utc = time.astimezone(UTC) if time.tzinfo else time
    except OverflowError as error:
        raise InvalidRequest(f"a number, time or delay is out of range: {time} in UTC") from error
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds")


def _size(odbc: Any, kind: str, value: bool | int | str) -> tuple[int, int, int]:
    """The type to bind a value with, so that it does not vary with the value's length."""
    if isinstance(value, bool):
        return (odbc.SQL_BIT, 0, 0)
    if isinstance(value, int):
        return (
            odbc.SQL_INTEGER if kind in ("int", "integer", "smallint") else odbc.SQL_BIGINT,
            0,
            0,
        )
    length = kind.partition("(")[2].rstrip(")") if kind.startswith("nvarchar") else "40"
    return (odbc.SQL_WVARCHAR, int(length) if length.isdigit() else 0, 0)


def driver_connection(connection: Any) -> odbc.Connection:
    """The pyodbc connection inside what a caller hands over: pyodbc's, or SQLAlchemy's.

    Raises:
        ConfigError: it is neither.
    """
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "in_transaction") and hasattr(connection, "connection"):
        if not connection.in_transaction():
            connection.begin()  # as its own execute does, or its rollback would not reach us
        connection = connection.connection.driver_connection
    if isinstance(connection, pyodbc().Connection):
        return cast("odbc.Connection", connection)
    raise ConfigError(
        f"connection must be a pyodbc connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
