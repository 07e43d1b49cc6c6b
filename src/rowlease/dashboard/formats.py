"""Formats values for pages. Text of users is shown as text, even if it looks like HTML."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from rowlease.counts import per_second
from rowlease.durations import format_duration as duration
from rowlease.visible import HIDDEN
from rowlease.visible import visible as with_escapes

#: The maximum number of characters of a payload, result or traceback on a page.
MAX_SHOWN_CHARACTERS = 20_000
DASH = "\N{EN DASH}"


def visible(text: str | None) -> Markup:
    """Any text, with a marked escape for each hidden character but tabs and ends of lines."""
    mark = Markup('<span class="hidden-character">{}</span>')
    return Markup("").join(
        mark.format(with_escapes(part)) if HIDDEN.fullmatch(part) and part not in "\t\n" else part
        for part in HIDDEN.split(text or "")
    )


def cut(text: str | None, length: int) -> str:
    """The beginning of a text, with an ellipsis if there is more."""
    text = text or ""
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def pretty(text: str | None) -> str:
    """JSON text with a line for each value. Long or broken JSON stays as it is."""
    if text is None or len(text) > MAX_SHOWN_CHARACTERS:
        return text or ""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def number(count: int | None) -> str:
    """A count such as `1,234`."""
    return DASH if count is None else f"{count:,}"


def rate(value: float | None) -> str:
    """A number per second."""
    return DASH if value is None else per_second(value)


def span(time: timedelta | float | None) -> str:
    """A duration, of a timedelta or of seconds."""
    if time is None:
        return DASH
    return duration(time.total_seconds() if isinstance(time, timedelta) else float(time))


def milliseconds(value: float | None) -> str:
    """A duration of milliseconds, such as `4 ms` or `12.0s`."""
    if value is None:
        return DASH
    return f"{value:.0f} ms" if value < 1000 else duration(value / 1000)


def moment(time: datetime | None) -> Markup:
    """A time relative to now. The exact time is its tooltip, and is read by a screen reader."""
    if time is None:
        return Markup("{}").format(DASH)
    utc = time.astimezone(UTC)
    seconds = (datetime.now(UTC) - utc).total_seconds()
    if abs(seconds) < 1:
        text = "just now"
    else:
        text = f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"), exact(utc), text
    )


def exact(time: datetime | None) -> str:
    """A time to the millisecond, in UTC."""
    if time is None:
        return DASH
    return f"{time.astimezone(UTC).isoformat(' ', 'milliseconds').partition('+')[0]} UTC"
