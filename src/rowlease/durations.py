"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

#: The seconds of each unit.
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> timedelta:
    """Parse a duration: `250ms`, `30s`, `5m`, `1h` or `7d`. Only 0 needs no unit.

    Raises:
        ValueError: the text is not a duration.
    """
    number, unit = re.fullmatch(r"([0-9.]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        found = timedelta(seconds=float(number) * UNITS[unit or "s"])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{text!r} is not a duration; write 250ms, 30s, 1h or 7d") from None
    if found and not unit:
        raise ValueError(f"{text!r} has no unit; write {text}s, {text}m, {text}h or {text}d")
    return found


def format_duration(seconds: float | None) -> str:
    """A duration such as `0.3s`, `42s`, `3m 20s`, `5h 1m` or `2d 3h`."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for size, unit, part, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part}{smaller}"
    return f"{whole}s"
