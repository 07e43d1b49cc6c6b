"""Calls procedures: converts arguments for pyodbc, and reads the returned rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rowlease.errors import InvalidRequest
from rowlease.store.calls import to_milliseconds
from rowlease.store.sqlserver.connection import pyodbc

if TYPE_CHECKING:
    import pyodbc as odbc

#: Numbers that are too large for a parameter of each integer type.
RANGES = {"smallint": 2**15, "int": 2**31, "integer": 2**31, "bigint": 2**63}


class ProcedureCall:
    """A procedure and its arguments, converted for pyodbc."""

    def __init__(self, name: str, params: dict[str, str], arguments: dict[str, Any]) -> None:
        odbc = pyodbc()
        self._values: list[Any] = []
        self._sizes: list[tuple[int, int, int]] = []
        places = []
        for param, kind in params.items():
            given = arguments.get(param)
            # For a null parameter, the driver would ask the server for its type.
            places.append("null" if given is None else "?")
            if given is not None:
                value = _written(param, kind, given)
                self._values.append(value)
                self._sizes.append(_size(odbc, kind, value))
        self._text = f"exec rowlease.{name} {', '.join(places)}"

    def rows(
        self, cursor: odbc.Cursor, lock_wait: timedelta | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of the first result set. All sets are read, so that late errors are raised.

        Args:
            lock_wait: how long the call waits for one lock; None means as the session does.
        """
        text = self._text
        if lock_wait is not None:
            text = f"set lock_timeout {to_milliseconds(lock_wait)}; {text}"
        cursor.setinputsizes(self._sizes or None)  # a cursor keeps the sizes of its last call
        cursor.execute(text, self._values)
        return result(cursor)


def result(cursor: odbc.Cursor) -> list[tuple[Any, ...]]:
    """Read all result sets. Return the rows of the first one, with times in UTC."""
    rows: list[tuple[Any, ...]] | None = None
    while True:
        if cursor.description is not None:
            found = cursor.fetchall()
            if rows is None:
                rows = [
                    tuple(v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for v in row)
                    for row in found
                ]
        if not cursor.nextset():
            return rows or []


def _written(param: str, kind: str, value: Any) -> bool | int | str:
    """An argument converted for the procedure: an array to JSON, a time to ISO text in UTC.

    Raises:
        InvalidRequest: SQL Server would refuse the value, or cut it silently.
    """
    if isinstance(value, list | tuple):
        for each in value:
            if isinstance(each, str):
                _check_text(each)
        return json.dumps(value, ensure_ascii=False, default=_iso)
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, str):
        _check_text(value)
        length = kind.partition("(")[2].rstrip(")")
        if length.isdigit() and len(value.encode("utf-16-le")) > 2 * int(length):
            raise InvalidRequest(
                f"a name or key is too long: {param.removeprefix('p_')} takes {length} characters"
            )
        return value
    if isinstance(value, bool):
        return value
    bound = RANGES.get(kind, 2**63)
    if not -bound <= value < bound:
        raise InvalidRequest(
            "a number, time or delay is out of range: "
            f"{param.removeprefix('p_')} is not of type {kind}"
        )
    return int(value)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a string has half of a Unicode character: {error}") from error
    if "\0" in text:
        raise InvalidRequest("a string has a character that the database refuses: NUL (0x00)")


def _iso(time: datetime) -> str:
    # A time without a zone is in UTC, as it is in rowlease's sessions on PostgreSQL.
    try:
        utc = time.astimezone(UTC) if time.tzinfo else time
    except OverflowError as error:
        raise InvalidRequest(f"a number, time or delay is out of range: {time} in UTC") from error
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds")


def _size(odbc: Any, kind: str, value: bool | int | str) -> tuple[int, int, int]:
    """The type of a parameter, which does not depend on the value's length."""
    if isinstance(value, bool):
        return (odbc.SQL_BIT, 0, 0)
    if isinstance(value, int):
        return (
            odbc.SQL_INTEGER if kind in ("int", "integer", "smallint") else odbc.SQL_BIGINT,
            0,
            0,
        )
    length = kind.partition("(")[2].rstrip(")") if kind.startswith("nvarchar") else "40"
    return (odbc.SQL_WVARCHAR, int(length) if length.isdigit() else 0, 0)
