"""Reports the outcome of a request on the caller's connection to SQL Server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rowlease.errors import ConfigError
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver.connection import pyodbc
from rowlease.store.sqlserver.procedures import ProcedureCall
from rowlease.store.transaction import Report

if TYPE_CHECKING:
    import pyodbc as odbc


def outcome_of(connection: Any, report: Report) -> str:
    """Make a report on a connection of pyodbc or SQLAlchemy. Return the outcome."""
    params = load_routines("sqlserver")[report.routine].params
    call = ProcedureCall(report.routine, params, report.given())
    ((_, outcome),) = call.rows(driver_connection(connection))
    return str(outcome)


def driver_connection(connection: Any) -> odbc.Connection:
    """The pyodbc connection of a caller's connection of pyodbc or SQLAlchemy.

    Raises:
        ConfigError: the connection is of another kind.
    """
    if hasattr(connection, "run_sync"):
        raise ConfigError(
            f"{type(connection).__name__} is for asyncio; bind a connection of pyodbc, or a "
            "Connection or Session of SQLAlchemy"
        )
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "in_transaction") and hasattr(connection, "connection"):
        if not connection.in_transaction():
            connection.begin()  # otherwise its rollback would not undo the call
        connection = connection.connection.driver_connection
    if isinstance(connection, pyodbc().Connection):
        return cast("odbc.Connection", connection)
    raise ConfigError(
        f"connection must be a pyodbc connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
