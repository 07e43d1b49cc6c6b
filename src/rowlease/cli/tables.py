"""Prints rows: as a table for people, as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rowlease.cli.options import show_json
from rowlease.cli.say import say
from rowlease.durations import format_duration
from rowlease.visible import visible


def show_rows(
    rows: Sequence[NamedTuple], columns: Sequence[str], as_json: bool, nothing: str
) -> None:
    """Print the rows of a list that the database has made.

    Args:
        columns: the fields in the table; JSON has all fields.
        nothing: the sentence for an empty list.
    """
    if as_json:
        show_json([to_json(row._asdict()) for row in rows])
    elif not rows:
        say(nothing)
    else:
        header = [name.removesuffix("_name").replace("_", " ") for name in columns]
        show_table(
            header,
            [
                [
                    str(getattr(row, name)) if name.endswith("_id") else getattr(row, name)
                    for name in columns
                ]
                for row in rows
            ],
        )


def show_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under a header. Columns of numbers are aligned at the right; times are in UTC."""
    from rich.cells import cell_len

    found = list(rows)
    columns = list(zip(*found, strict=True)) or [()] * len(header)
    numbers = [bool(column) and all(map(is_number, column)) for column in columns]
    titles = [
        f"{title} (UTC)" if any(isinstance(cell, datetime) for cell in column) else title
        for title, column in zip(header, columns, strict=True)
    ]
    table = [titles, *([format_cell(cell) for cell in row] for row in found)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = []
        for cell, width, is_right in zip(cells, widths, numbers, strict=True):
            blanks = " " * (width - cell_len(cell))
            padded.append(blanks + cell if is_right else cell + blanks)
        say("  ".join(padded).rstrip())


def is_number(cell: Any) -> bool:
    return cell is None or isinstance(cell, int | float)


def format_cell(cell: Any) -> str:
    """A cell as text on one line."""
    match cell:
        case None:
            return "-"
        case int() | float():
            return f"{cell:,}"
        case datetime():
            return f"{cell.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        case timedelta():
            return format_duration(cell.total_seconds())
        case tuple():
            return ", ".join(map(format_cell, cell))
    return visible(str(cell))


def to_json(data: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: times are ISO 8601, and durations have a name in _seconds."""
    return {
        f"{name}_seconds" if isinstance(value, timedelta) else name: _plain(value)
        for name, value in data.items()
    }


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    return value
