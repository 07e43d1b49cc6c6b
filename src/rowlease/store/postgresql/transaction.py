"""Calls a routine on the caller's connection to PostgreSQL, through the connection's library.

Connections are recognised by their attributes, so that no library is imported that is not in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import tuple_row

from rowlease.errors import ConfigError
from rowlease.store.postgresql.literals import LITERALS, text_array
from rowlease.store.routines import packaged_folder, read_routine
from rowlease.store.transaction import OutcomeReport, is_for_asyncio

#: The kinds of connections, for errors.
CONNECTION_KINDS = (
    "connection must be a connection of psycopg, psycopg2 or Django, or a Connection or Session of "
    "SQLAlchemy"
)
#: The kinds of asyncio connections, for errors.
ASYNC_KINDS = (
    "connection must be an AsyncConnection of psycopg, a Connection of asyncpg, or an "
    "AsyncConnection or AsyncSession of SQLAlchemy"
)


class RoutineCall(NamedTuple):
    """A routine with its arguments.

    Attributes:
        name: the name of the routine.
        columns: the columns to return; empty means all.
        types: the SQL types of the parameters, by name.
        arguments: the arguments, by name. Arrays are literals (see `literals`).
    """

    name: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    arguments: dict[str, Any]

    def text(self, written: Callable[[str, str], str]) -> str:
        """The statement, in which `written` writes a parameter with its name and type.

        The statement names the columns, because a prepared `select *` fails after the routine gets
        another column.
        """
        given = ", ".join(f"{each} => {written(each, self.types[each])}" for each in self.arguments)
        return f"select {', '.join(self.columns) or '*'} from rowlease.{self.name}({given})"  # noqa: S608

    def as_text(self) -> dict[str, str | None]:
        """The arguments as strings, which all libraries pass in the same way."""
        return {name: _text(each) for name, each in self.arguments.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return text_array([_text(each) for each in value])
    return None if value is None else str(value)


def for_psycopg(name: str, kind: str) -> str:
    return f"%({name})s::{kind}"


def _for_psycopg2(name: str, kind: str) -> str:
    return f"%({name})s::text::{kind}"


def _for_sqlalchemy(name: str, kind: str) -> str:
    return f"cast(cast(:{name} as text) as {kind})"


def execute(connection: Any, call: RoutineCall) -> list[Any]:
    """The rows that a routine returns.

    Raises:
        ConfigError: rowlease does not know the connection's library, or the connection is for
            asyncio.
        Exception: any exception of the library.
    """
    if isinstance(connection, psycopg.Connection):
        # The connection may have another row factory, so the cursor names its own.
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            return cursor.execute(call.text(for_psycopg), call.arguments).fetchall()
    if is_for_asyncio(connection):
        raise ConfigError(f"{_shown(connection)} is for asyncio; bind it with rowlease.AsyncClient")
    if hasattr(connection, "get_bind"):  # a Session of SQLAlchemy
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):  # a Connection of SQLAlchemy
        import sqlalchemy as sa

        found = connection.execute(sa.text(call.text(_for_sqlalchemy)), call.as_text())
        return [tuple(row) for row in found]
    module = type(connection).__module__
    if hasattr(connection, "ensure_connection"):  # Django's
        opened = connection.cursor()
    elif module.startswith("psycopg2."):
        from psycopg2.extensions import cursor as tuples

        opened = connection.cursor(cursor_factory=tuples)
    else:
        raise ConfigError(f"{CONNECTION_KINDS}, not {_shown(connection)}")
    with opened as cursor:
        cursor.execute(call.text(_for_psycopg2), call.as_text())
        rows: list[Any] = cursor.fetchall()
        return rows


async def execute_async(connection: Any, call: RoutineCall) -> list[Any]:
    """The same as `execute`, on an asyncio connection."""
    if isinstance(connection, psycopg.AsyncConnection):
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(call.text(for_psycopg), call.arguments)
            return await cursor.fetchall()
    if hasattr(connection, "run_sync"):  # SQLAlchemy
        rows: list[Any] = await connection.run_sync(execute, call)
        return rows
    if is_for_asyncio(connection):  # asyncpg
        given = call.as_text()
        places = {name: f"${place}::text" for place, name in enumerate(given, 1)}
        text = call.text(lambda name, kind: f"{places[name]}::{kind}")
        return [tuple(row) for row in await connection.fetch(text, *given.values())]
    raise ConfigError(f"{ASYNC_KINDS}, not {_shown(connection)}")


def outcome_of(connection: Any, report: OutcomeReport) -> str:
    """See `rowlease.store.engine.Engine`."""
    ((outcome,),) = execute(connection, reporting(report))
    return str(outcome)


def reporting(report: OutcomeReport) -> RoutineCall:
    """The call of a routine that reports an outcome and returns the database's answer."""
    types = _types_of(report.routine)
    arguments = {
        name: LITERALS[types[name]](value) if types[name] in LITERALS else value
        for name, value in report.arguments.items()
    }
    return RoutineCall(report.routine, ("outcome",), types, arguments)


@cache
def _types_of(routine: str) -> dict[str, str]:
    """The types of a routine's parameters. A task's process reads no other routine."""
    return read_routine(packaged_folder("sql") / "postgresql/finish" / f"{routine}.sql").params


def _shown(connection: Any) -> str:
    kind = type(connection)
    # The class of psycopg2 is named `connection`.
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__
