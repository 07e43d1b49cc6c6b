"""What Spark's JDBC reader and writer need to know of a database, and how its errors are said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest, RowleaseError
from rowlease.spark.drivers import JdbcDriver, drivers_for
from rowlease.store import is_sqlserver, jdbc_error, jdbc_options

#: Letters, digits and a few signs that mean nothing to SQL, to a JDBC driver or to Spark.
HARMLESS = re.compile(r"[A-Za-z0-9_ .-]")
BULK_COPY = "useBulkCopyForBatchInsert"


def connection_options(dsn: str) -> dict[str, str]:
    """The options of Spark's JDBC source for this database; they hold the password.

    Spark keeps the options of one read or write out of its configuration and event log, and shows
    the password nowhere.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    return jdbc_options(dsn)


def staged(frame: Any, dsn: str) -> tuple[str, Any]:
    """The table that loads are written to, and the frame as that table wants it."""
    if not is_sqlserver(dsn):
        return "rowlease.staging", frame
    if "due_time" in frame.columns:
        frame = frame.withColumn("due_time", _utc_wall_clock("due_time"))
    names = {name: "".join(part.capitalize() for part in name.split("_")) for name in frame.columns}
    return "rowlease.Staging", frame.withColumnsRenamed(names)


def _utc_wall_clock(column: str) -> Any:
    """What a clock in UTC shows at a timestamp.

    Microsoft's driver writes what a clock in the JVM's own time zone shows, and datetime2 knows no
    zones. A cast would go through the session's zone, which shows some hours twice.
    """
    from pyspark.sql import functions as F

    return F.expr(
        f"timestamp_ntz'1970-01-01 00:00:00' + unix_micros({column}) * interval '0.000001' second"
    )


def writing_options(dsn: str, columns: list[str]) -> dict[str, str]:
    """`connection_options`, and what makes the driver send many rows at once.

    On SQL Server that is bulk copy, but not for times: on the one engine that has run it they
    arrived as other times. Ordinary batches brought them right.
    """
    options = connection_options(dsn)
    if not is_sqlserver(dsn):
        return options | {"reWriteBatchedInserts": "true"}
    if "due_time" in columns:
        options["url"] = options["url"].replace(f"{BULK_COPY}=true", f"{BULK_COPY}=false")
    return options | {"isolationLevel": "READ_COMMITTED"}


def literal(text: str) -> str:
    """The text as an SQL literal that nothing between here and the server can misread.

    Spark's JDBC source takes no bound parameters. Whatever is not plainly harmless becomes a
    Unicode escape, so no quote, backslash, question mark or comment sign reaches a parser.

    Raises:
        InvalidRequest: the text holds a character that no PostgreSQL text can hold.
    """
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise InvalidRequest(f"{text!r} holds a character that the database cannot hold")
    escaped = (c if HARMLESS.fullmatch(c) else f"\\U{ord(c):08X}" for c in text)
    return f"E'{''.join(escaped)}'"


@contextmanager
def database_errors(dsn: str, doing: str) -> Iterator[None]:
    """Say in a sentence what a Spark job in this block raises because of the database.

    Args:
        dsn: the database, for the message; its password is left out.
        doing: the half sentence that the message starts with.

    Raises:
        RowleaseError: one of its kin, with PySpark's error as the cause.
        Whatever else the block raises, unchanged: a failing user function is not our error.
    """
    try:
        yield
    except Exception as error:
        ours = as_our_error(error, dsn, doing)
        if ours is None:
            raise
        raise ours from error


def as_our_error(error: Exception, dsn: str, doing: str) -> RowleaseError | None:
    """What rowlease calls an error of PySpark's; None if the database is not behind it."""
    found = _innermost_sql_exception(error)
    if found is None:
        driver: JdbcDriver = drivers_for(dsn)[-1]
        if driver.class_name in str(error):
            return ConfigError(
                f"{doing}: this Spark session has no {driver.database} JDBC driver; start it with "
                "rowlease.spark.local_session, or with spark.jars or spark.jars.packages set"
            )
        return None
    ours = jdbc_error(dsn, *found)
    return type(ours)(f"{doing}: {ours}")


def _innermost_sql_exception(error: Exception) -> tuple[str, int, str] | None:
    """SQLSTATE, number and first line of the last java.sql.SQLException in the chain of causes."""
    found = None
    # PySpark keeps the Java exception under one of two names.
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):
        if thrown is None:
            break
        if _is_sql_exception(thrown.getClass()):
            said = str(thrown.getMessage() or "").strip().partition("\n")[0]
            state, code = str(thrown.getSQLState() or ""), int(thrown.getErrorCode())
            found = (state, code, said)
        thrown = thrown.getCause()
    return found


def _is_sql_exception(kind: Any) -> bool:
    while kind is not None:
        if kind.getName() == "java.sql.SQLException":
            return True
        kind = kind.getSuperclass()
    return False
