"""SQL Server for the contract suite: where a server comes from, its databases, its sessions.

Where no SQL Server is to be had, another engine that speaks T-SQL over TDS serves as well as it
can: Babelfish. What it cannot do is skipped with its reason, in `MssqlSession` and nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from rowlease.errors import StoreConflict, StoreError
from rowlease.store import migrate
from rowlease.store.revisions import Migrated
from rowlease.store.routines import all_files, load_routines
from rowlease.store.sqlserver import migrate as migrate_sqlserver
from rowlease.store.sqlserver.connection import odbc_string, pyodbc
from rowlease.store.sqlserver.procedures import result
from rowlease.store.sqlserver.store import OwnConnection, SqlServerStore
from tests import machine
from tests.contract.sessions import IGNORES_HINTS, TABLES, Measured, Session
from tests.tsql import unixodbc

T = TypeVar("T")

VARIABLE = "ROWLEASE_TEST_MSSQL_DSN"
#: Names the one engine to test; without it, all are tested that there is a server for.
ENGINE = "ROWLEASE_TEST_ENGINE"
#: What that server does not report about itself.
LABEL = "ROWLEASE_TEST_MSSQL_LABEL"
IMAGE = "mcr.microsoft.com/mssql/server:2022-latest"
#: Columns with JSON text, which are compared as values.
JSON_COLUMNS = {"Payload", "Result", "QueueNames", "PolicyWeights", "RequestIds"}

#: Replaces the routine `now` by the time in a session's context.
FROZEN_CLOCK = """
create or alter function rowlease.now() returns datetime2(6)
as
begin
  declare @frozen nvarchar(40) = cast(session_context(N'rowlease_frozen_now') as nvarchar(40));
  return coalesce(cast(@frozen as datetime2(6)), sysutcdatetime());
end
"""
#: Rows in one INSERT: nine parameters each, of which a call takes 2,100.
STAGED_AT_ONCE = 200
#: Connections that earlier sessions have left, by DSN.
KEPT: dict[str, list[Any]] = defaultdict(list)
NO_PAGES = "what a call costs is counted in PostgreSQL's own statistics of pages"
NO_NOTIFICATIONS = "this engine sends no notifications"


# -- a server --------------------------------------------------------------------------------------


def missing() -> str | None:
    """Why there is no SQL Server to test with; None if there is one."""
    if (named := os.environ.get(ENGINE, "sqlserver")) != "sqlserver":
        return f"no SQL Server: {ENGINE} is {named}"
    if not os.environ.get(VARIABLE) and not machine.docker_answers():
        return f"no SQL Server: {VARIABLE} is not set, and no Docker engine answers"
    if why := unixodbc.missing():
        return f"no SQL Server: {why}"
    return None


@contextmanager
def server() -> Iterator[str]:
    """The DSN of a server on which databases may be made."""
    if given := os.environ.get(VARIABLE):
        yield given
        return
    from testcontainers.community.mssql import SqlServerContainer

    password = f"Aa1-{secrets.token_hex(12)}"
    with SqlServerContainer(IMAGE, password=password) as container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(1433)
        yield f"mssql://sa:{password}@{host}:{port}/master?TrustServerCertificate=yes"


def in_database(dsn: str, name: str) -> str:
    return re.sub(r"(?<=[^/]/)[^/?]+(?=\?|$)", name, dsn)


def connect(dsn: str, *, autocommit: bool = True) -> Any:
    return pyodbc().connect(odbc_string(dsn, "contract test"), autocommit=autocommit, timeout=10)


@contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """The DSN of a migrated database whose clock can be frozen; it is gone afterwards."""
    name = f"rowlease_test_{secrets.token_hex(6)}"
    with closing(connect(server_dsn)) as connection:
        dsn = in_database(server_dsn, name)
        connection.execute(f"create database {name}")
        with suppress(pyodbc().Error):  # as sql/README.md advises; not every engine has a choice
            connection.execute(f"alter database {name} set read_committed_snapshot on")
        try:
            apply(dsn)
            yield dsn
        finally:
            for kept in KEPT.pop(dsn, []):
                kept.close()
            with suppress(pyodbc().Error):  # not every engine has it
                connection.execute(f"alter database {name} set single_user with rollback immediate")
            _await_nobody(connection, name)
            connection.execute(f"drop database {name}")


def _await_nobody(connection: Any, name: str) -> None:
    """Wait until closed sessions have ended: not every engine can throw them out."""
    # An engine may have rows there that are no sessions, and without an id.
    sessions = (
        "select count(*) from sys.dm_exec_sessions"
        " where database_id = db_id(?) and session_id is not null"
    )
    deadline = time.monotonic() + 30
    while connection.execute(sessions, name).fetchval() and time.monotonic() < deadline:
        pass


def apply(dsn: str) -> Migrated:
    """`rowlease migrate`, with scripts rewritten for the engine and a clock for tests."""
    with closing(connect(dsn)) as connection:
        spoken = is_babelfish(connection)
    run = migrate_sqlserver._run

    def run_rewritten(driver: Any, text: str, *arguments: Any) -> None:
        if re.search(r"create or alter function rowlease\.now\(", text):
            text = FROZEN_CLOCK
        for batch in rewritten(text) if spoken else [text]:
            run(driver, batch, *arguments)

    def reworded(*given: Any) -> tuple[str, Any]:
        _, _, text, parameters, _, _ = given
        return in_its_words(text), parameters

    with ExitStack() as stack:
        stack.enter_context(patch.object(migrate_sqlserver, "_run", run_rewritten))
        if spoken:  # it calls itself version 12; and what the migrations themselves say
            stack.enter_context(patch.object(migrate_sqlserver, "check_server", lambda *_: None))
            heard = (sa.Engine, "before_cursor_execute", reworded)
            sa.event.listen(*heard, retval=True)
            stack.callback(sa.event.remove, *heard)
        return migrate(dsn)


#: Text of scripts, and its replacement for Babelfish.
SPOKEN = (
    (r", *\n *@DbPrincipal = N'rowlease_lock'", ""),  # its locks have no owner
    (  # if it has waited, it checks a join with what is updated on the row as it was before
        r"from ((?:@\w+|\([^()]*\)) as \w+)\n"
        r" *inner join rowlease\.Queue with \((?:[^()]|\([^()]*\))*\)\s+"
        r"on ([^;]*?)\n *where ([^;]*?)\n *option \([^)]*\);",
        r"where exists (select 1 from \1 where (\2) and (\3));",
    ),
    (r"applock_(test|mode)\(N'rowlease_lock'", r"applock_\1(N'dbo'"),
    (r"(next value for \S+) over \([^)]*\)", r"\1"),  # its sequences are read in the order of rows
    (r" cache 1000;", ";"),  # its sessions would take ids of their own in advance
    (r"(forceseek \(\w+ \(\w+)(?:, \w+)+\)\)", r"\1))"),  # some statements take one column
    (r" collate Latin1_General_100_BIN2_UTF8", ""),  # all its texts are UTF-8
    (r"(alter authorization|grant control) on schema::[^;]*;", ""),
    # It keeps no descriptions of a view's columns.
    (r"(set @inner = [^;]*;)", r"\1 if @type = 'VIEW' and @column is not null continue;"),
    (  # the table is empty
        r"alter table (\S+) alter column (\w+) ([^;]*\bnull);",
        r"alter table \1 drop column \2; alter table \1 add \2 \3;",
    ),
)


def in_its_words(text: str) -> str:
    for pattern, instead in SPOKEN:
        text = re.sub(pattern, instead, text)
    return text


def rewritten(text: str) -> list[str]:
    """A script of sql/sqlserver for Babelfish, which has no CREATE OR ALTER."""
    text = in_its_words(text)
    made = re.search(r"create or alter (\w+) (rowlease(?:_internal)?\.\w+)", text)
    if made is None:
        return [text]
    drop = f"drop {made[1]} if exists {made[2]}"
    return [drop, text.replace("create or alter", "create", 1)]


def replacement(text: str) -> list[str]:
    """A routine's new text for Babelfish, which drops no function that a view calls."""
    made = re.search(r"create or alter function (\S+?)\(", text)
    called = f"{made[1]}(" if made else "\0"
    views = [
        rewritten(file.body)
        for file in all_files("sqlserver")
        if "create or alter view" in file.body and called in file.body
    ]
    return [*(view[0] for view in views), *rewritten(text), *(view[1] for view in views)]


def is_babelfish(connection: Any) -> bool:
    return "Babelfish" in connection.execute("select @@version").fetchval()


def emptied(dsn: str) -> None:
    with closing(connect(dsn)) as connection:
        empty(connection)


def empty(connection: Any) -> None:
    """Have no rows but the queue `default`'s settings."""
    deletes = "; ".join(f"delete from rowlease.{spelt(table)}" for table in TABLES)
    connection.execute(
        "set nocount on; set xact_abort on; begin transaction;"
        f" {deletes}; insert into rowlease.QueueSettings (QueueName) values (N'default');"
        " commit transaction"
    )


# -- its dialect -----------------------------------------------------------------------------------


def spelt(name: str) -> str:
    """`request_id` as SQL Server spells it: RequestId."""
    return "".join(part.capitalize() for part in name.split("_"))


def unspelt(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def written(value: Any) -> Any:
    """A value as pyodbc takes it on every engine: times as text."""
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return utc.replace(tzinfo=None).isoformat(timespec="microseconds")
    return value


def read(column: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if column in JSON_COLUMNS and value is not None:
        return json.loads(value)
    return value


class MssqlSession(SqlServerStore, Session):
    """See `Session`."""

    ends_transactions = True

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "contract test")
        self.dsn = dsn
        self.raw = self._kept() or self._connect().driver
        self.raw.execute("select rand(0)").fetchval()  # random values repeat
        self._observer = self._kept() or self._connect().driver
        self._id = self.raw.execute("select @@spid").fetchval()
        self._is_babelfish = is_babelfish(self._observer)
        self.skips_locked = not self._is_babelfish
        # Every lock time-out has the number of what it does not know.
        self.conflict = StoreError if self._is_babelfish else StoreConflict
        self._thread = ThreadPoolExecutor(1)
        self._calls: list[Future[Any]] = []

    def _kept(self) -> Any:
        """A connection of an earlier session: an engine may compile routines for each one anew."""
        while kept := KEPT[self.dsn]:
            connection = kept.pop()
            with suppress(pyodbc().Error):
                connection.execute("if @@trancount > 0 rollback transaction")
                return connection
        return None

    def _take(self, seconds: float) -> OwnConnection:
        return OwnConnection(self.raw)

    @contextmanager
    def _using(self, own: Any, limit: int = 0) -> Iterator[None]:
        try:
            yield
        except pyodbc().Error as error:
            if self._is_babelfish and "canceling statement due to lock timeout" in str(error):
                pytest.skip(IGNORES_HINTS)  # nor does its TRY catch what then happens
            if self._is_babelfish and "procedure returned null record" in str(error):
                pytest.skip(
                    "Babelfish cannot insert what a procedure returns that has outputs within"
                )
            self._raise(error)
        finally:
            if isinstance(own, OwnConnection):
                own.cursor(limit).close()  # what is left of its results would keep it busy

    def _is_repeatable(self, name: str, arguments: dict[str, Any], error: StoreError) -> bool:
        return False  # a test's transaction may be open, and its connection is the only one

    # -- looking ---------------------------------------------------------------------------------

    def version(self) -> str:
        lines = str(self._observer.execute("select @@version").fetchval()).splitlines()
        answered = "; ".join((lines[0], lines[-1])) if self._is_babelfish else lines[0].strip()
        label = os.environ.get(LABEL)
        return f"{answered}; {label}" if label else answered

    def spelt(self, name: str) -> str:
        return spelt(name)

    def rows(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        names = "*" if columns == ("*",) else ", ".join(f"[{spelt(name)}]" for name in columns)
        match = " and ".join(f"[{spelt(name)}] = ?" for name in where) or "1 = 1"
        found = self._look(
            f"select {names} from rowlease.{spelt(table)} where {match}",
            *(written(value) for value in where.values()),
        )
        # As PostgreSQL sorts: what is null comes last.
        keys = [tuple((value is None, _sortable(value)) for value in row.values()) for row in found]
        order = sorted(range(len(found)), key=keys.__getitem__)
        return [tuple(found[place].values()) for place in order]

    def row(self, request_id: int) -> dict[str, Any]:
        (found,) = self._look("select * from rowlease.Requests where RequestId = ?", request_id)
        return {unspelt(name): value for name, value in found.items()}

    def _look(self, text: str, *arguments: Any) -> list[dict[str, Any]]:
        cursor = self._observer.execute(text, *arguments)
        names = [column[0] for column in cursor.description]
        return [
            {name: read(name, value) for name, value in zip(names, row, strict=True)}
            for row in cursor.fetchall()
        ]

    def execute(self, text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        # What an error leaves of its results would keep the connection busy.
        with self._using(self.raw), closing(self.raw.cursor()) as cursor:
            cursor.execute(text, *(arguments or ()))
            return result(cursor)

    # -- transactions and time -------------------------------------------------------------------

    def begin(self) -> None:
        self.execute("begin transaction")

    def commit(self) -> None:
        self.execute("commit transaction")

    def rollback(self) -> None:
        self.execute("if @@trancount > 0 rollback transaction")

    def now(self) -> datetime:
        ((time,),) = self.execute("select rowlease.now()")
        assert isinstance(time, datetime)
        return time

    @contextmanager
    def shipped_clock(self) -> Iterator[None]:
        self.put_routine(load_routines("sqlserver")["now"].body)
        try:
            yield
        finally:
            self.put_routine(FROZEN_CLOCK)

    def put_routine(self, text: str) -> None:
        """Replace a routine of this database by another text."""
        for batch in replacement(text) if self._is_babelfish else [text]:
            self._observer.execute(batch)

    def freeze(self, time: datetime | None) -> None:
        with suppress(pyodbc().Error):  # it may have been killed
            self.raw.execute(
                "exec sp_set_session_context @key = N'rowlease_frozen_now', @value = ?",
                None if time is None else written(time),
            )

    def in_background(self, call: Callable[[], T]) -> Future[T]:
        future = self._thread.submit(call)
        self._calls.append(future)
        return future

    def waits_for_lock(self) -> bool:
        if self._is_babelfish:
            waits = (  # its vacuum may hold the lock, but releases it
                "select count(*) from pg_catalog.pg_stat_activity as a"
                " where a.backend_type = 'client backend'"
                " and pg_catalog.array_position(pg_catalog.pg_blocking_pids(?), a.pid) is not null"
            )
        else:
            waits = (
                "select count(*) from sys.dm_exec_requests"
                " where session_id = ? and wait_type like 'LCK[_]%'"
            )
        return bool(self._observer.execute(waits, self._id).fetchval())

    def others_have_ended(self) -> None:
        """Nothing here looks at the past: there are no floors."""

    def migrate(self) -> Migrated:
        return apply(self.dsn)

    def restart_ids(self) -> None:
        self.execute("alter sequence rowlease.RequestIds restart with 1")

    def keep_floors(self) -> None:
        """See `others_have_ended`."""

    def kill(self) -> None:
        self._end()
        with suppress(pyodbc().Error):
            self.raw.execute("select 1").fetchall()  # so that the driver notices

    def _end(self) -> None:
        with suppress(pyodbc().Error):  # it may have ended already
            self._observer.execute(f"kill {self._id:d}")

    # -- writing past the routines ---------------------------------------------------------------

    def reset(self) -> None:
        empty(self.raw)
        self.raw.execute("select rand(0)").fetchval()  # random values repeat

    def forge(self, table: str, request_id: int, /, **columns: Any) -> None:
        settings = ", ".join(f"[{spelt(name)}] = {_place(v)}" for name, v in columns.items())
        self.execute(
            f"update rowlease.{spelt(table)} set {settings} where RequestId = {request_id:d}",
            _given(columns.values()),
        )

    def insert(self, table: str, /, **columns: Any) -> None:
        self.insert_many(table, [columns])

    def insert_many(self, table: str, rows: list[dict[str, Any]], /) -> None:
        names = ", ".join(f"[{spelt(name)}]" for name in rows[0])
        places = ", ".join(f"({', '.join(_place(v) for v in row.values())})" for row in rows)
        self.execute(
            f"insert into rowlease.{spelt(table)} ({names}) values {places}",
            _given(value for row in rows for value in row.values()),
        )

    def remove(self, table: str, /, **where: Any) -> None:
        match = " and ".join(f"[{spelt(name)}] = ?" for name in where)
        self.execute(f"delete from rowlease.{spelt(table)} where {match}", tuple(where.values()))

    def lay(
        self, load_id: str, run_number: int, rows: Iterable[Mapping[str, Any]], part: int = 0
    ) -> None:
        each = (
            {"run_number": run_number, "part": part, "priority": 0, "kind": "a", "payload": "{}"}
            | dict.fromkeys(("headers", "due_time", "dedup_key", "group_key"))
            | dict(row)
            for row in rows
        )
        ((inside,),) = self.execute("select @@trancount")
        if not inside:
            self.begin()
        try:
            while some := list(islice(each, STAGED_AT_ONCE)):
                self.insert_many("load_inbox", some)
        except BaseException:
            self.rollback()
            raise
        if not inside:
            self.commit()

    def end_part(self) -> None:
        """Each statement has counted its rows."""

    def must_hold(self, payload: str) -> None:
        if self._is_babelfish and r"\u0000" in payload:
            pytest.skip("Babelfish's JSON has no character NUL")

    def hold_gate(self, queue: str) -> None:
        self.execute(
            "declare @name nvarchar(255) = rowlease_internal.lock_name(N'gate', ?, N'');"
            " exec rowlease_internal.take_lock @name",
            (queue,),
        )

    def names_itself_in(self, message: str) -> bool:
        return message.startswith((f"session {self._id} (user ", "another session "))

    @contextmanager
    def squatting(self, *queues: str) -> Iterator[None]:
        if self._is_babelfish:
            pytest.skip("Babelfish has no EXECUTE AS, and its locks belong to nobody")
        names = ["rowlease:depth", "rowlease:maintain", *(f"rowlease:r:{n}" for n in range(100))]
        for queue in queues:
            names.append(f"rowlease:admit:{queue}")
            for kind in ("gate", "keys"):
                ((name,),) = self.execute(
                    "select rowlease_internal.lock_name(?, ?, N'')", (kind, queue)
                )
                names.append(name)
        with closing(connect(self.dsn)) as squatter:
            user = "rowlease_test_nobody"
            squatter.execute(f"if user_id('{user}') is null create user {user} without login")
            squatter.execute(f"execute as user = '{user}'")
            for name in names:
                squatter.execute(
                    "exec sys.sp_getapplock @Resource = ?, @LockMode = 'Exclusive',"
                    " @LockOwner = 'Session', @LockTimeout = 0",
                    name,
                )
            yield

    def fill(self, count: int, **columns: str) -> None:
        values = {
            "queue_name": "'default'", "kind": "'a'", "status": "'Pending'", "priority": "0",
            "requested_time": "rowlease.now()", "due_time": "rowlease.now()", "max_attempts": "5",
            "payload": "'{}'",
        } | columns  # fmt: skip
        names = ", ".join(map(spelt, values))
        places = range(len(str(count)))
        digits = " cross join ".join(
            "(values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))" + f" as t{place} (d{place})"
            for place in places
        )
        number = " + ".join(f"{10**place} * d{place}" for place in places)
        numbers = f"select n.i from (select {number} as i from {digits}) as n"
        self.execute(
            f"insert into rowlease.Queue ({names}) select {', '.join(values.values())}"
            f" from ({numbers} where n.i between 1 and {count:d}) as g"
        )
        counted = ", ".join(
            f"sum(case when Status = '{word}' then 1 else 0 end)"
            for word in ("Scheduled", "Pending", "Processing", "Failed")
        )
        self.execute(
            "set nocount on; delete from rowlease.QueueDepth; insert into rowlease.QueueDepth"
            " (QueueName, Priority, Scheduled, Pending, Processing, Failed)"
            f" select QueueName, Priority, {counted} from rowlease.Queue"
            " group by QueueName, Priority"
        )

    def fold_depth(self, limit: int) -> int:
        ((folded,),) = self.execute(  # its lock is a transaction's, as maintain's is
            "set nocount on; set xact_abort on; declare @folded bigint; begin transaction;"
            f" exec rowlease_internal.fold_depth {limit:d}, @folded output; commit transaction;"
            " select @folded"
        )
        return int(folded)

    def claim_one_by_one(self, worker: str, times: int) -> None:
        floor: str | None = None
        for _ in range(times):
            floor = self.dequeue(worker, ["default"], 1, floor=floor).floor

    # -- what callers bring ----------------------------------------------------------------------

    def driver_connection(self) -> Any:
        return connect(self.dsn, autocommit=False)

    def sqlalchemy_engine(self, **options: Any) -> sa.Engine:
        return sa.create_engine(
            "mssql+pyodbc://", creator=lambda: connect(self.dsn, autocommit=False), **options
        )

    # -- what is PostgreSQL's --------------------------------------------------------------------

    def measured(self, call: Callable[[], T]) -> Measured[T]:
        pytest.skip(NO_PAGES)

    def listening(self, room: bool = False) -> Callable[[], list[str]]:
        pytest.skip(NO_NOTIFICATIONS)

    @contextmanager
    def acting_as(self, role: str) -> Iterator[None]:
        if self._is_babelfish:
            pytest.skip("Babelfish has no EXECUTE AS")
        user = f"rowlease_test_{role}"
        self.execute(
            f"if user_id('{user}') is null begin create user {user} without login;"
            f" alter role rowlease_{role} add member {user}; end"
        )
        self.execute(f"execute as user = '{user}'")
        try:
            yield
        finally:
            self.execute("revert")

    def close(self) -> None:
        # A test may leave a call waiting; ending the connection ends the call.
        if not all(call.done() for call in self._calls):
            self._end()
        self._thread.shutdown()
        self.freeze(None)
        for connection in (self.raw, self._observer):
            try:
                connection.execute("if @@trancount > 0 rollback transaction")
                KEPT[self.dsn].append(connection)
            except pyodbc().Error:
                with suppress(pyodbc().Error):
                    connection.close()
        super().close()


def _place(value: Any) -> str:
    return "null" if value is None else "?"


def _given(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(written(value) for value in values if value is not None)


def _sortable(value: Any) -> Any:
    return "" if value is None else json.dumps(value) if isinstance(value, dict | list) else value
