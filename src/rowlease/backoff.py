"""Pauses between tries, each up to twice as long as the one before."""

from __future__ import annotations

import random
from collections.abc import Iterator


class Backoff(Iterator[float]):
    """An iterator of pauses in seconds, without an end.

    Up to half of each pause is taken off at random, so that callers that failed together do not
    try again together.

    Args:
        first: the longest first pause. The limit doubles with each pause.
        longest: the longest pause of all.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def __next__(self) -> float:
        limit, self._next = self._next, min(self._longest, 2 * self._next)
        return limit * random.uniform(0.5, 1)

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first
