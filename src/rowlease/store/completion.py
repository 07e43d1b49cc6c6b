"""Completes a request in the caller's transaction, on the caller's connection.

A running task has no store, only the connection on which the task makes its changes. Connections
are recognised by their attributes, so that no library is imported that the task does not use.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from rowlease.model import Held
from rowlease.store.transaction import is_for_asyncio, refuse_autocommit, refuse_unless_ok


def complete(connection: Any, held: Held, result: str | None) -> Coroutine[Any, Any, None] | None:
    """Complete a request. On an asyncio connection, the return value must be awaited.

    Args:
        connection: a connection that `Client.bind` or `AsyncClient.bind` accepts.
        held: the request.
        result: the result of the task as JSON text, or None.

    Raises:
        LeaseLost: the outcome is not `ok`.
        ConfigError: `bind` would not accept the connection, or it is in autocommit mode.
        Exception: any exception of the connection's library.
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
