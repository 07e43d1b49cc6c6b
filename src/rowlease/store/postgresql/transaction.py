"""Completes a request on the caller's connection to PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from rowlease.errors import ConfigError
from rowlease.model import Held

#: With the parameters of each library.
CALL = "select outcome from rowlease.complete(array[{}], array[{}], array[{}])"
FOR_PSYCOPG = CALL.format("%s::bigint", "%s::bigint", "%s::text")
FOR_SQLALCHEMY = CALL.format(
    "cast(:id as bigint)", "cast(:token as bigint)", "cast(:result as text)"
)


def complete(connection: Any, held: Held, result: str | None) -> str:
    """Complete a request on a connection of psycopg or SQLAlchemy; returns the outcome."""
    if not isinstance(connection, psycopg.Connection):
        return _in_sqlalchemy(connection, held, result)
    # A cursor with tuples: the connection may have another row factory.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(FOR_PSYCOPG, (*held, result))
        ((outcome,),) = cursor.fetchall()
    return str(outcome)


async def complete_async(
    connection: psycopg.AsyncConnection[Any], held: Held, result: str | None
) -> str:
    """As `complete`, on an asyncio connection of psycopg."""
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(FOR_PSYCOPG, (*held, result))
        ((outcome,),) = await cursor.fetchall()
    return str(outcome)


def _in_sqlalchemy(connection: Any, held: Held, result: str | None) -> str:
    """Through SQLAlchemy, so that it tracks the transaction, with any driver."""
    import sqlalchemy as sa

    given = {"id": held.request_id, "token": held.lock_token, "result": result}
    return str(connection.execute(sa.text(FOR_SQLALCHEMY), given).scalar_one())


def driver_connection(connection: Any) -> psycopg.Connection:
    """The psycopg connection of a caller's connection, of psycopg or SQLAlchemy.

    Raises:
        ConfigError: it is neither.
    """
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    # A SQLAlchemy Connection; connections of Django and psycopg also have a `connection`.
    if hasattr(connection, "in_transaction") and hasattr(connection, "connection"):
        if not connection.in_transaction():
            connection.begin()  # as its execute does; else its rollback would not undo the call
        connection = connection.connection.driver_connection
    if isinstance(connection, psycopg.Connection):
        return connection
    raise ConfigError(
        f"connection must be a psycopg connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
