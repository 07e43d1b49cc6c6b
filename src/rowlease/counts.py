"""Counts, rates and beginnings of texts, as people read them on all screens."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A count such as `1 request` or `1,200 requests`.

    Args:
        noun: the singular; its plural ends in -s.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def per_second(rate: float) -> str:
    """A rate such as `1,200`, `3.4` or `0.05`, without insignificant digits."""
    if rate == 0 or rate >= 10:
        return f"{rate:,.0f}"
    return f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"


def first_line(text: str | None) -> str:
    """The first line of a text; empty if there is no text."""
    return (text or "").partition("\n")[0]
