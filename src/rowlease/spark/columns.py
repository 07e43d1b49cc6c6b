"""Builds the columns of requests from the arguments of `enqueue`, and checks their types."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Required, TypedDict

from rowlease.errors import InvalidRequest
from rowlease.model import DUE_RANGE, DUE_TIMES, Begun
from rowlease.store.bulk import LANE, NULLABLE
from rowlease.tasks import headers

#: The bounds of a priority before it is clamped to the queue's maximum.
MAX_INTEGER = 2**31 - 1
INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: The types that a key may have.
KEY_TYPES = ("string", *INTEGERS, "decimal")
#: Spark's options for writing a payload as JSON. Nulls are included, because the payload becomes
#: keyword arguments. By default, Spark cuts times to milliseconds. XXXXX keeps the seconds in the
#: offset of local times before 1900.
AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, kw_only=True)
class RequestColumns:
    """The arguments of `enqueue` for the columns of requests."""

    kind: Any
    priority: Any = None
    payload: Any = None
    dedup_key: Any = None
    group_key: Any = None
    due_time: Any = None
    headers: Any = None


class ColumnKeywords(TypedDict, total=False):
    """The fields of `RequestColumns`, as keyword arguments of functions."""

    kind: Required[Any]
    priority: Any
    payload: Any
    dedup_key: Any
    group_key: Any
    due_time: Any
    headers: Any


def request_columns(df: Any, given: RequestColumns) -> list[Any]:
    """The columns of requests as expressions on the frame. Arguments that are None are left out.

    Raises:
        InvalidRequest: see `enqueue`.
    """
    from pyspark.sql import Column

    columns = [payload_column(df, given.payload)]
    if isinstance(given.kind, Column):
        columns.append(checked(df, "kind", given.kind, ("string",)))
    elif not isinstance(given.kind, str) or not given.kind:
        raise InvalidRequest("kind must be the name of a task, or a Column of names")
    if given.priority is not None:
        columns.append(priority_column(df, given.priority))
    for argument, source in ("dedup_key", given.dedup_key), ("group_key", given.group_key):
        if source is not None:
            columns.append(checked(df, argument, source, KEY_TYPES).cast("string").alias(argument))
    if given.due_time is not None:
        columns.append(due_time_column(df, given.due_time))
    if given.headers is not None:
        columns.append(headers_column(df, given.headers))
    return columns


def in_the_lane(rows: Any, kind: str | None, run: Begun) -> Any:
    """The rows with the columns of the view `load_inbox`.

    Args:
        rows: a frame with the first three columns of LANE and with `request_columns`.
        kind: the kind of rows that have none.
    """
    from pyspark.sql import functions as F

    empty = {"priority": 0, "kind": kind or "", "payload": "{}"}
    filled = {
        name: F.coalesce(name, F.lit(value)) if name in rows.columns else F.lit(value)
        for name, value in empty.items()
    }
    filled["priority"] = F.least(filled["priority"], F.lit(run.max_priority))
    more = [name for name in NULLABLE if name in rows.columns]
    return rows.withColumns(filled).select(*LANE, *more)


def priority_column(df: Any, given: Any) -> Any:
    """The priority as an int column. Column values beyond ±MAX_INTEGER are clamped."""
    from pyspark.sql import functions as F

    if isinstance(given, bool):
        raise InvalidRequest("priority must be an int, a column name or a Column, not bool")
    if isinstance(given, int):
        if given < 0:
            raise InvalidRequest(f"priority must be 0 or more, not {given}")
        return F.lit(min(given, MAX_INTEGER)).cast("int").alias("priority")
    column = checked(df, "priority", given, INTEGERS)
    return (
        F.when(column > MAX_INTEGER, MAX_INTEGER)
        .when(column < -MAX_INTEGER, -MAX_INTEGER)
        .otherwise(column)
        .cast("int")
        .alias("priority")
    )


def due_time_column(df: Any, given: Any) -> Any:
    """The due time. Spark raises DUE_RANGE for a time that no request may have."""
    from pyspark.sql import functions as F

    column = checked(df, "due_time", given, ("timestamp",))
    earliest, latest = (F.expr(f"timestamp'{time.isoformat()}'") for time in DUE_TIMES)
    allowed = column.between(earliest, latest)
    return F.when(~allowed, F.raise_error(F.lit(DUE_RANGE))).otherwise(column).alias("due_time")


def headers_column(df: Any, given: Any) -> Any:
    """The headers as JSON text."""
    from pyspark.sql import functions as F

    if isinstance(given, Mapping):
        return F.lit(headers.encode_headers(given)).cast("string").alias("headers")
    column = checked(df, "headers", given, ("string", "struct", "map"))
    if type_name(df, column) == "string":
        return column
    return F.to_json(column).alias("headers")


def payload_column(df: Any, given: Any) -> Any:
    """The payload as JSON text."""
    from pyspark.sql import functions as F

    column = payload_source(df, given)
    if type_name(df, column) == "string":
        return column
    return F.to_json(column, AS_JSON).alias("payload")


def payload_source(df: Any, given: Any) -> Any:
    """The column for the payload: a string, or a struct or map that is converted to JSON."""
    from pyspark.sql import functions as F

    if given is not None:
        return checked(df, "payload", given, ("string", "struct", "map"))
    if not df.columns:
        raise InvalidRequest("the frame has no columns for a payload")
    check_unique(df, df.columns)
    whole = F.struct(*(named(column) for column in df.columns))
    return checked(df, "payload", whole, ("struct",))


def described(df: Any, payload: Any, columns: list[Any], kind: Any) -> str:
    """The columns and types of a load, as a string that is the same in every run."""
    return schema_text(df.select(payload_source(df, payload), *columns[1:]).schema, kind)


def schema_text(schema: Any, kind: Any) -> str:
    """The columns and types of a schema, and the kind if it is the same for all rows."""
    columns = [f"{field.name} {field.dataType.simpleString()}" for field in schema]
    return ", ".join([*columns, *([f"kind {kind!r}"] if isinstance(kind, str) else [])])


def checked(df: Any, argument: str, given: Any, types: tuple[str, ...]) -> Any:
    """Check a column argument, and return it as an expression with the argument's name as alias.

    Args:
        types: the SQL types that the column may have.

    Raises:
        InvalidRequest: the column does not exist, cannot be evaluated on the frame, or has another
            type.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column

    if isinstance(given, str):
        if given not in df.columns:
            known = ", ".join(df.columns[:20]) + (", ..." if len(df.columns) > 20 else "")
            raise InvalidRequest(
                f"{argument} is {given!r}, but the frame has no such column; "
                f"its columns are {known}"
            )
        check_unique(df, [given])
        column = named(given)
    elif isinstance(given, Column):
        column = given
    else:
        raise InvalidRequest(
            f"{argument} must be a column name or a Column, not {type(given).__name__}"
        )
    column = column.alias(argument)
    try:
        found = type_name(df, column)
    except AnalysisException as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidRequest(f"{argument} cannot be evaluated on the frame: {reason}") from error
    if found not in types:
        name = f"the column {given!r}" if isinstance(given, str) else "the expression"
        raise InvalidRequest(
            f"{argument}: {name} has the type {found}; cast it to {' or '.join(types)}"
        )
    return column


def check_unique(df: Any, names: Iterable[str]) -> None:
    """Refuse a name that several columns of the frame have, as after a join.

    By default, Spark takes names for equal that differ only in capitals.
    """
    exact = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    spelt: dict[str, list[str]] = {}
    for column in df.columns:
        spelt.setdefault(column if exact else column.lower(), []).append(column)
    for name in names:
        if len(same := spelt[name if exact else name.lower()]) > 1:
            found = " or ".join(map(repr, dict.fromkeys(same)))
            raise InvalidRequest(
                f"the frame has several columns {found}; drop or rename all but one"
            )


def type_name(df: Any, column: Any) -> str:
    """The SQL type of an expression on the frame, without its parameters. Runs no job."""
    # If the expression does not fit, Spark raises AnalysisException and also logs it to stderr, as
    # JSON with a Java stack trace. Suppress that log; the caller reports the error.
    noise = logging.getLogger("DataFrameQueryContextLogger")
    was, noise.disabled = noise.disabled, True
    try:
        (field,) = df.select(column).schema.fields
    finally:
        noise.disabled = was
    return str(field.dataType.simpleString()).partition("<")[0].partition("(")[0]


def named(column: str) -> Any:
    """The column of the frame with exactly this name, which may contain any characters."""
    from pyspark.sql import functions as F

    return F.col(f"`{column.replace('`', '``')}`")
