"""Checks the caller's own connection, and outcomes that are part of its transaction.

Connections are recognised by their attributes, so that no library is imported that is not in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from rowlease.errors import ConfigError, LeaseLost
from rowlease.model import Held, LeasedRequest, Outcome

#: The database of a caller's connection, in errors: it may be another one than that of the store.
CALLERS_DATABASE = "the other end of your connection"


class OutcomeReport(NamedTuple):
    """The outcome of a request, in the transaction of a caller.

    Attributes:
        routine: the routine that reports it.
        held: the lease.
        arguments: the arguments of the routine.
    """

    routine: str
    held: Held
    arguments: dict[str, Any]


def is_for_asyncio(connection: Any) -> bool:
    """Whether this is an asyncio connection of SQLAlchemy, asyncpg or psycopg."""
    return (
        hasattr(connection, "run_sync")
        or hasattr(connection, "is_in_transaction")
        or iscoroutinefunction(getattr(type(connection), "commit", None))
    )


def refuse_autocommit(connection: Any) -> None:
    """Raise ConfigError if each statement on this connection is a transaction of its own."""
    if _commits_each_statement(connection):
        raise ConfigError(
            "the connection commits each statement by itself (autocommit), so that an outcome "
            "cannot be part of a transaction; begin a transaction first"
        )


def _commits_each_statement(connection: Any) -> bool:
    if hasattr(connection, "is_in_transaction"):  # asyncpg's
        return not connection.is_in_transaction()
    if hasattr(connection, "get_autocommit"):  # Django's
        return bool(connection.get_autocommit())
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's Connection
        connection = connection.connection.dbapi_connection
    info = getattr(connection, "info", None)  # psycopg's; 0 means no transaction
    return bool(getattr(connection, "autocommit", False)) and (
        info is None or info.transaction_status == 0
    )


def refuse_unless_ok(
    held: Sequence[Held | LeasedRequest], outcomes: Sequence[Outcome | str]
) -> None:
    """Raise LeaseLost for the first request whose outcome is not `ok`."""
    for each, outcome in zip(held, outcomes, strict=True):
        if outcome != Outcome.OK:
            raise LeaseLost(each.request_id, str(outcome))
