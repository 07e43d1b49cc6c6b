"""Counts as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A count such as `1 request` or `1,200 requests`.

    Args:
        noun: the singular; its plural ends in -s.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
