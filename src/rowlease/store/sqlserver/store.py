"""The store for SQL Server: calls procedures with pyodbc, and converts rows and errors."""

from __future__ import annotations

import ctypes
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from rowlease.backoff import Backoff
from rowlease.errors import ConfigError, StoreError, StoreTimeout
from rowlease.forks import watch_forks
from rowlease.store import deadlines
from rowlease.store.dsn import redact
from rowlease.store.error_codes import timeout_error
from rowlease.store.pool import ConnectionPool, NotConnected, Place, in_thread
from rowlease.store.routines import load_routines
from rowlease.store.shared_listener import SharedListener
from rowlease.store.sqlserver import transaction
from rowlease.store.sqlserver.connection import connect, odbc_string, pyodbc
from rowlease.store.sqlserver.driver_errors import EXHAUSTED, SERVER_BUSY, OdbcError, our_error
from rowlease.store.sqlserver.procedures import ProcedureCall
from rowlease.store.sqlserver.transaction import TransactionLost
from rowlease.store.store import Store
from rowlease.store.transaction import CALLERS_DATABASE

if TYPE_CHECKING:
    import pyodbc as odbc

T = TypeVar("T")

#: The cursors that a connection keeps. Each has the limit that it was made with.
MAX_CURSORS = 8
#: The number of times that a call is repeated.
MAX_REPEATS = 4
#: Idempotent routines: a second call returns `repeat` or changes nothing. Routines that claim are
#: not among them, because no worker would renew the leases of a claim whose answer was lost.
REPEATABLE = frozenset({
    "complete", "complete_and_enqueue", "fail", "abandon", "expire", "snooze", "renew",
    "report_progress",
    "begin_load", "promote", "end_run", "maintain", "finish_batches", "depth",
    "explain", "pause", "resume", "configure_queue", "worker_heartbeat", "remove_worker",
    "schema_version",
    "put_schedule", "pause_schedule", "resume_schedule", "list_schedules",
    "get_request",
    "list_queues", "list_workers", "show_queue", "list_ready", "list_leases", "list_dead_letters",
    "list_loads", "list_streams", "measure_waits", "list_days", "list_kinds", "list_operations",
    "list_batches", "list_shared_kinds",
})  # fmt: skip


class OwnConnection:
    """A connection of the pool.

    Attributes:
        driver: the connection of pyodbc.
    """

    place: Place | None = None

    def __init__(self, driver: odbc.Connection) -> None:
        self.driver = driver
        self._cursors: dict[int, odbc.Cursor] = {}
        watch_forks(self)

    def cursor(self, limit: int) -> odbc.Cursor:
        """The cursor for calls that the driver cancels after this number of seconds.

        pyodbc reads `timeout` only when it makes a cursor. A cursor that is closed after a call
        costs a second message, with which the driver drops the prepared statement.
        """
        self.driver.timeout = limit
        if limit not in self._cursors:
            if len(self._cursors) == MAX_CURSORS:
                self._cursors.pop(next(iter(self._cursors))).close()
            self._cursors[limit] = self.driver.cursor()
        return self._cursors[limit]

    def close(self) -> None:
        self.driver.close()

    def forget(self) -> None:
        """Keep this process's copy of the connection for ever, without a word to the server.

        The driver would end the parent's session when the last reference is gone, also at the end
        of the process. It does not tell its descriptor, which stays open until then.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


class SqlServerStore(Store):
    """See `rowlease.store.Store`."""

    can_notify = False

    def __init__(
        self, dsn: str, application_name: str, call_timeout: timedelta = deadlines.CALL
    ) -> None:
        self._call_timeout = call_timeout
        self._odbc = odbc_string(dsn, application_name)
        self.dsn = dsn
        self.where = redact(dsn)
        self._routines = load_routines("sqlserver")
        self._pool = ConnectionPool(self._connect)
        self.finished = self.room = SharedListener(lambda: self.listen([]), lambda: False)

    def _connect(self) -> OwnConnection:
        return OwnConnection(connect(self._odbc))

    def close(self) -> None:
        self._pool.close()

    # -- calling ---------------------------------------------------------------------------------

    def _call(
        self, name: str, connection: Any = None, columns: tuple[str, ...] = (), /, **arguments: Any
    ) -> list[Any]:
        """Call a procedure.

        Args:
            connection: the caller's connection; the call is part of its transaction. None means a
                pooled connection.
        """
        call = ProcedureCall(name, self._routines[name].params, arguments)
        if connection is not None:
            is_own = isinstance(connection, OwnConnection)
            where = self.where if is_own else CALLERS_DATABASE
            try:
                return transaction.call(connection.driver if is_own else connection, call)
            except TransactionLost as lost:
                self._raise(lost.error, where=where, note="" if is_own else f"; {lost}")
            except pyodbc().Error as error:
                self._raise(error, where=where)
        timeout = self._time_for(name)
        ends = time.monotonic() + timeout.total_seconds()
        with self._monitor(name):
            for pause in (*islice(Backoff(0.03, 1.0), MAX_REPEATS), math.inf):
                try:
                    return self._call_once(call, ends - time.monotonic())
                except StoreError as error:
                    left = ends - time.monotonic()
                    if pause > left or not self._is_repeatable(name, arguments, error):
                        raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    async def _call_async(
        self, name: str, connection: Any, columns: tuple[str, ...], /, **arguments: Any
    ) -> NoReturn:
        raise ConfigError(
            "rowlease knows no asyncio connection for SQL Server; bind a pyodbc connection in "
            "a thread: await client.run_sync(lambda sync: sync.bind(connection).enqueue(...))"
        )

    def _call_once(self, call: ProcedureCall, seconds: float) -> list[Any]:
        """Call once, in another thread.

        Then this thread can stop waiting in time. The driver, which counts in whole seconds,
        cancels the call at the same time or within the next second. If the server does not answer
        that, the driver takes three times as long.
        """
        ends = time.monotonic() + seconds
        own = self._take(seconds)
        limit = max(1, math.ceil(ends - time.monotonic()))

        def rows() -> list[Any]:
            with self._using(own, limit):
                return call.rows(own.cursor(limit), deadlines.lock_wait(limit))

        try:
            return in_thread(rows, ends - time.monotonic())
        except (TimeoutError, StoreTimeout):
            self._pool.close_idle()  # they probably have the same fault
            raise timeout_error(seconds, self.where) from None

    def in_transaction(self, work: Callable[[Any], T]) -> T:
        timeout = self._time_for("enqueue_many").total_seconds()
        ends = time.monotonic() + timeout
        own = self._take(timeout)
        limit = max(1, math.ceil(ends - time.monotonic()))

        def run() -> T:
            with self._using(own, limit):
                own.cursor(limit)  # the driver's new cursors have this limit, too
                own.driver.autocommit = False
                try:
                    done = work(own)
                    own.driver.commit()
                    return done
                finally:
                    with suppress(pyodbc().Error):  # it is closed
                        own.driver.rollback()
                        own.driver.autocommit = True

        try:
            return in_thread(run, ends - time.monotonic())
        except (TimeoutError, StoreTimeout):
            self._pool.close_idle()  # they probably have the same fault
            raise timeout_error(timeout, self.where) from None

    def _is_repeatable(self, name: str, arguments: dict[str, Any], error: StoreError) -> bool:
        """Whether a call that raised this error can be repeated without taking effect twice."""
        if not error.transient or not isinstance(error.__cause__, pyodbc().Error):
            return False
        found = OdbcError.read(error.__cause__)
        if found.was_rolled_back:
            return True
        if found.code in EXHAUSTED:
            return False  # the call would do all its work again, and probably fail again
        if found.in_connecting:
            return found.code in SERVER_BUSY
        has_receipt = arguments.get("p_receipt_key") is not None
        return name in REPEATABLE or (has_receipt and arguments.get("p_wait_ms") is None)

    def _take(self, seconds: float) -> OwnConnection:
        try:
            return self._pool.take(seconds)
        except (NotConnected, pyodbc().Error) as error:
            self._raise(error)

    @contextmanager
    def _using(self, own: OwnConnection, limit: int) -> Iterator[None]:
        """Give the connection back after the block. Convert errors that the driver raises in it.

        Args:
            limit: the limit of the cursor that the block uses.
        """
        is_sound = False
        try:
            yield
            is_sound = True
        except pyodbc().Error as error:
            if not OdbcError.read(error).is_disconnect:
                with suppress(pyodbc().Error):
                    # XACT_ABORT does this, unless the error precedes the procedure's first line.
                    own.cursor(limit).execute("if @@trancount > 0 rollback transaction")
                    is_sound = True
            if not is_sound:
                self._pool.close_idle()  # they probably have the same fault
            self._raise(error, is_sent=True)
        finally:
            self._pool.give_back(own, is_sound=is_sound)

    def _raise(
        self,
        error: odbc.Error | NotConnected,
        *,
        where: str | None = None,
        is_sent: bool = False,
        note: str = "",
    ) -> NoReturn:
        """Raise rowlease's exception for this error, which becomes the `__cause__`."""
        found = our_error(error, where or self.where)
        found.args = (f"{found}{note}",)
        if isinstance(found, StoreError):  # after any other error the call was rolled back
            found.maybe_done = is_sent and OdbcError.read(error).is_disconnect
        raise found from error

    def configure_queue(
        self, queue: str, *, actor: str | None = None, **settings: Any
    ) -> dict[str, Any]:
        ((found,),) = self._call(
            "configure_queue", p_queue_name=queue, p_settings=json.dumps(settings), p_actor=actor
        )
        return cast("dict[str, Any]", json.loads(found))

    def show_queue(self, queue: str) -> dict[str, Any]:
        ((found,),) = self._call("show_queue", p_queue_name=queue)
        return cast("dict[str, Any]", json.loads(found))

    def listen(self, queues: Sequence[str]) -> NoReturn:
        raise ConfigError("SQL Server sends no notifications; poll instead")
