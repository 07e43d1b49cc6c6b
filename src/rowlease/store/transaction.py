"""Checks on a completion in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowlease.errors import ConfigError, LeaseLost
from rowlease.model import Held, LeasedRequest, Outcome


def refuse_autocommit(connection: Any) -> None:
    """Raise ConfigError if each statement on this connection is a transaction of its own."""
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's Connection
        connection = connection.connection.dbapi_connection
    if not getattr(connection, "autocommit", False):
        return
    info = getattr(connection, "info", None)  # psycopg's; 0: no transaction is open
    if info is None or info.transaction_status == 0:
        raise ConfigError(
            "the connection commits each statement by itself (autocommit), so that a completion "
            "cannot be part of a transaction; open one first"
        )


def refuse_unless_ok(
    held: Sequence[Held | LeasedRequest], outcomes: Sequence[Outcome | str]
) -> None:
    """Raise LeaseLost for the first request whose outcome is not `ok`."""
    for each, outcome in zip(held, outcomes, strict=True):
        if outcome != Outcome.OK:
            raise LeaseLost(each.request_id, str(outcome))
