"""Completes a request in the caller's transaction, on the caller's connection.

A running task has no store, only the connection of its effects. Connections are recognised by their
attributes, so that only libraries in use are imported.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rowlease.model import Held
from rowlease.store.transaction import is_for_asyncio, refuse_autocommit, refuse_unless_ok


def complete(connection: Any, held: Held, result: str | None) -> Coroutine[Any, Any, None] | None:
    """Complete a request; on an asyncio connection the result must be awaited.

    Args:
        connection: of a library that `Client.bind` or `AsyncClient.bind` knows.
        result: JSON text.

    Raises:
        LeaseLost: the outcome is not `ok`.
        ConfigError: it is another kind of connection, or in autocommit mode.
        Exceptions of the library.
    """
    if hasattr(connection, "run_sync"):  # SQLAlchemy's AsyncConnection or AsyncSession
        completed: Coroutine[Any, Any, None] = connection.run_sync(_complete, held, result)
        return completed
    if is_for_asyncio(connection):
        return _complete_async(connection, held, result)
    _complete(connection, held, result)
    return None


def _complete(connection: Any, held: Held, result: str | None) -> None:
    refuse_autocommit(connection)
    if _is_sqlserver(connection):
        from rowlease.store.sqlserver import transaction as sqlserver

        outcome = sqlserver.complete(connection, held, result)
    else:
        from rowlease.store.postgresql.transaction import completion, execute

        ((outcome,),) = execute(connection, completion(held, result))
    refuse_unless_ok([held], [outcome])


async def _complete_async(connection: Any, held: Held, result: str | None) -> None:
    from rowlease.store.postgresql.transaction import completion, execute_async

    refuse_autocommit(connection)
    ((outcome,),) = await execute_async(connection, completion(held, result))
    refuse_unless_ok([held], [outcome])


def _is_sqlserver(connection: Any) -> bool:
    if hasattr(connection, "get_bind"):  # a Session of SQLAlchemy
        connection = connection.get_bind()
    dialect = getattr(getattr(connection, "dialect", None), "name", None)
    return dialect == "mssql" or type(connection).__module__ == "pyodbc"
