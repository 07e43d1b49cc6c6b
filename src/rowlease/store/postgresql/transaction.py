"""Completes a request on the caller's connection to PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from rowlease.errors import ConfigError
from rowlease.model import Held

#: Filled in as each library writes a parameter.
CALL = "select outcome from rowlease.complete(array[{}], array[{}], array[{}])"
FOR_PSYCOPG = CALL.format("%s::bigint", "%s::bigint", "%s::text")
FOR_SQLALCHEMY = CALL.format(
    "cast(:id as bigint)", "cast(:token as bigint)", "cast(:result as text)"
)


def complete(connection: Any, held: Held, result: str | None) -> str:
    """The outcome of the completion, on a connection of psycopg's or SQLAlchemy's."""
    if not isinstance(connection, psycopg.Connection):
        return _in_sqlalchemy(connection, held, result)
    # Our own cursor: this connection's may have another row factory.
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(FOR_PSYCOPG, (*held, result))
        ((outcome,),) = cursor.fetchall()
    return str(outcome)


async def complete_async(
    connection: psycopg.AsyncConnection[Any], held: Held, result: str | None
) -> str:
    """As `complete`, on psycopg's connection for asyncio."""
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(FOR_PSYCOPG, (*held, result))
        ((outcome,),) = await cursor.fetchall()
    return str(outcome)


def _in_sqlalchemy(connection: Any, held: Held, result: str | None) -> str:
    """Through SQLAlchemy itself, so that it knows of the transaction, whatever the driver."""
    import sqlalchemy as sa

    given = {"id": held.request_id, "token": held.lock_token, "result": result}
    return str(connection.execute(sa.text(FOR_SQLALCHEMY), given).scalar_one())


def driver_connection(connection: Any) -> psycopg.Connection:
    """The psycopg connection inside what a caller hands over: psycopg's, or SQLAlchemy's.

    Raises:
        ConfigError: it is neither.
    """
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    # A Connection, which holds the pooled one; Django's and psycopg's have a `connection` too.
    if hasattr(connection, "in_transaction") and hasattr(connection, "connection"):
        if not connection.in_transaction():
            connection.begin()  # as its own execute does, or its rollback would not reach us
        connection = connection.connection.driver_connection
    if isinstance(connection, psycopg.Connection):
        return connection
    raise ConfigError(
        f"connection must be a psycopg connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
