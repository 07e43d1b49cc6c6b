"""Calls procedures in the caller's transaction, on the caller's connection to SQL Server."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, cast

from rowlease.errors import ConfigError
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver.connection import pyodbc
from rowlease.store.sqlserver.procedures import ProcedureCall
from rowlease.store.transaction import OutcomeReport

if TYPE_CHECKING:
    import pyodbc as odbc


def outcome_of(connection: Any, report: OutcomeReport) -> str:
    """Make a report on a connection of pyodbc or SQLAlchemy. Return the outcome."""
    params = load_routines("sqlserver")[report.routine].params
    try:
        ((_, outcome),) = call(connection, ProcedureCall(report.routine, params, report.arguments))
    except TransactionLost as lost:
        lost.error.add_note(str(lost))
        raise lost.error from None
    return str(outcome)


class TransactionLost(Exception):
    """A call failed, and the server rolled back the caller's transaction.

    Attributes:
        error: the driver's exception.
    """

    def __init__(self, error: odbc.Error) -> None:
        super().__init__(
            "your transaction was rolled back and its connection is closed; begin the transaction "
            "again on a new connection"
        )
        self.error = error


def call(connection: Any, procedure: ProcedureCall) -> list[tuple[Any, ...]]:
    """The rows of a procedure that is called in the caller's transaction.

    After an error, XACT_ABORT has ended the transaction in the server. The driver would begin a new
    one by itself, so the caller's commit would succeed without the first half of its work. The
    connection is closed so that the commit fails.

    Raises:
        TransactionLost: the call failed, and the transaction is gone.
        pyodbc.Error: the call failed, and no transaction was open, or it is still open.
    """
    driver = driver_connection(connection)
    # Without autocommit, the driver keeps a transaction open.
    is_open = not driver.autocommit or _num_transactions(driver) > 0
    try:
        # The context manager of pyodbc would commit the caller's transaction.
        with closing(driver.cursor()) as cursor:
            return procedure.rows(cursor)
    except pyodbc().Error as error:
        if not is_open or (driver.autocommit and _num_transactions(driver) > 0):
            raise
        with suppress(pyodbc().Error):
            _close(connection)
        raise TransactionLost(error) from error


def _num_transactions(driver: odbc.Connection) -> int:
    with suppress(pyodbc().Error):
        return int(driver.execute("select @@trancount").fetchval())
    return 0


def _close(connection: Any) -> None:
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "invalidate"):  # SQLAlchemy's Connection, which must not reconnect here
        connection.invalidate()
    else:
        connection.close()


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
