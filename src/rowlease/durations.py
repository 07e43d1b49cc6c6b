"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

#: The seconds of each unit.
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str) -> timedelta:
    """Parse a duration: `250ms`, `30s`, `5m`, `1h` or `7d`. A number alone is seconds.

    Raises:
        ValueError: the text is not a duration.
    """
    number, unit = re.fullmatch(r"([0-9.]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        return timedelta(seconds=float(number) * UNITS[unit or "s"])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{text!r} is not a duration; write 250ms, 30s, 1h or 7d") from None
