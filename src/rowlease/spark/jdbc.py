"""Options for Spark's JDBC reader and writer, and the conversion of their errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rowlease import errors
from rowlease.embedded import over_tcp
from rowlease.errors import ConfigError, InvalidRequest, RowleaseError
from rowlease.model import DUE_RANGE
from rowlease.store import engine_of

#: Characters without a special meaning for SQL, JDBC drivers and Spark.
SAFE_CHARACTER = re.compile(r"[A-Za-z0-9_ .-]")
#: An error of rowlease in the text of a PySpark exception.
PYTHON_ERROR = re.compile(r"^rowlease\.errors\.(\w+): (.*)$", re.MULTILINE)
#: The name of Spark's error for a job that somebody has cancelled.
CANCELLED_ERROR = "[SPARK_JOB_CANCELLED]"


def connection_options(dsn: str) -> dict[str, str]:
    """The options of Spark's JDBC source for this database, with the password.

    Spark does not write these options to its configuration or its event log, and it does not show
    the password.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    return engine_of(over_tcp(dsn)).jdbc_options()


def writing_options(dsn: str) -> dict[str, str]:
    """`connection_options`, with the options for many rows at once."""
    return engine_of(over_tcp(dsn)).jdbc_writing_options()


def literal(text: str) -> str:
    """The text as an SQL literal without special characters.

    Spark's JDBC source has no bound parameters. Every character that may be special becomes a
    Unicode escape, so no quote, backslash, question mark or comment sign reaches a parser.

    Raises:
        InvalidRequest: the text has a character that PostgreSQL cannot store.
    """
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise InvalidRequest(f"{text!r} has a character that the database cannot store")
    escaped = (c if SAFE_CHARACTER.fullmatch(c) else f"\\U{ord(c):08X}" for c in text)
    return f"E'{''.join(escaped)}'"


@contextmanager
def database_errors(dsn: str, doing: str) -> Iterator[None]:
    """Convert the database errors of Spark jobs in this block.

    Args:
        dsn: the DSN of the database. The message has it without the password.
        doing: the start of the message.

    Raises:
        RowleaseError: a subclass of it, with PySpark's error as the `__cause__`.
        Exception: any other exception of the block, unchanged, such as that of a user's function.
    """
    try:
        yield
    except Exception as error:
        ours = as_our_error(error, dsn, doing)
        if ours is None:
            raise
        raise ours from error


def as_our_error(error: Exception, dsn: str, doing: str) -> RowleaseError | None:
    """The exception for an error of PySpark; None if the database did not cause it."""
    found = _innermost_sql_exception(error)
    if found is None:
        if raised := PYTHON_ERROR.findall(str(error)):
            name, text = raised[-1]
            kind: type[RowleaseError] = getattr(errors, name, RowleaseError)
            return kind(f"{doing}: {text}")
        if DUE_RANGE in str(error):  # Spark raised it; see `due_time_column`
            return InvalidRequest(f"{doing}: {DUE_RANGE}")
        if CANCELLED_ERROR in str(error):
            return RowleaseError(f"{doing}: the Spark job was cancelled")
        driver = engine_of(dsn).jdbc_driver
        if driver.class_name in str(error):
            return ConfigError(
                f"{doing}: this Spark session has no {driver.database} JDBC driver; start it with "
                f"--packages {driver.package} (in a program: the setting spark.jars.packages), or "
                "with rowlease.spark.local_session"
            )
        return None
    ours = engine_of(dsn).jdbc_error(*found)
    return type(ours)(f"{doing}: {ours}")


def _innermost_sql_exception(error: Exception) -> tuple[str, int, str] | None:
    """SQLSTATE, number and first line of the last java.sql.SQLException in the chain of causes."""
    found = None
    # PySpark stores the Java exception under one of two names.
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):
        if thrown is None:
            break
        if _is_sql_exception(thrown.getClass()):
            text = str(thrown.getMessage() or "").strip().partition("\n")[0]
            state, code = str(thrown.getSQLState() or ""), int(thrown.getErrorCode())
            found = (state, code, text)
        thrown = thrown.getCause()
    return found


def _is_sql_exception(kind: Any) -> bool:
    while kind is not None:
        if kind.getName() == "java.sql.SQLException":
            return True
        kind = kind.getSuperclass()
    return False


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, so that this process has no JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
