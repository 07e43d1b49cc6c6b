"""Completes a request in the caller's transaction, on the caller's connection.

A running task has no store, only the connection of its effects. Connections are recognised by their
attributes, so that only libraries in use are imported.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rowlease.errors import ConfigError
from rowlease.model import Held
from rowlease.store.transaction import refuse_autocommit, refuse_unless_ok


def complete(connection: Any, held: Held, result: str | None) -> Coroutine[Any, Any, None] | None:
    """Complete a request; on an asyncio connection the result must be awaited.

    Args:
        connection: of psycopg, pyodbc or SQLAlchemy, or a session of SQLAlchemy.
        result: JSON text.

    Raises:
        LeaseLost: the outcome is not `ok`.
        ConfigError: it is another kind of connection, or in autocommit mode.
        Exceptions of the driver or SQLAlchemy.
    """
    import psycopg

    if isinstance(connection, psycopg.AsyncConnection):
        return _await_psycopg(connection, held, result)
    if hasattr(connection, "run_sync"):  # SQLAlchemy's AsyncConnection or AsyncSession
        found: Coroutine[Any, Any, None] = connection.run_sync(_complete, held, result)
        return found
    _complete(connection, held, result)
    return None


def _complete(connection: Any, held: Held, result: str | None) -> None:
    refuse_autocommit(connection)
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    dialect = getattr(getattr(connection, "dialect", None), "name", None)
    if dialect == "postgresql" or _is_psycopg(connection):
        from rowlease.store.postgresql import transaction as postgresql

        outcome = postgresql.complete(connection, held, result)
    elif dialect == "mssql" or type(connection).__module__ == "pyodbc":
        from rowlease.store.sqlserver import transaction as sqlserver

        outcome = sqlserver.complete(connection, held, result)
    else:
        raise ConfigError(
            "connection must be a connection of psycopg or pyodbc, or a connection or session "
            f"of SQLAlchemy to such a database, not {dialect or type(connection).__name__}"
        )
    refuse_unless_ok([held], [outcome])


def _is_psycopg(connection: Any) -> bool:
    import psycopg

    return isinstance(connection, psycopg.Connection)


async def _await_psycopg(connection: Any, held: Held, result: str | None) -> None:
    from rowlease.store.postgresql.transaction import complete_async

    refuse_autocommit(connection)
    refuse_unless_ok([held], [await complete_async(connection, held, result)])
