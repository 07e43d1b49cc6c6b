"""guards.toml: what each routine of sql/sqlserver must say about locks."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("guards.toml")


@cache
def guards(part: str) -> dict[str, Any]:
    """One part of the file, such as the ways in which routines treat locked rows."""
    found: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))[part]
    return found
