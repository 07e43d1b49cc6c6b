"""Counts and durations as plain values, which a worker can send to its supervisor as JSON."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

#: Upper limits of the buckets of a histogram, in seconds.
BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
)  # fmt: skip

#: The name of a metric, and the values of its labels.
Key = tuple[str, tuple[str, ...]]


class Tally:
    """Counters and histograms. Every method is safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, float] = {}
        self._durations: dict[Key, list[float]] = {}

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        key = (name, labels)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + by

    def observe(self, name: str, *labels: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        key = (name, labels)
        with self._lock:
            found = self._durations.get(key)
            if found is None:
                # A number for each bucket, one for longer durations, and the sum.
                found = self._durations[key] = [0.0] * (len(BUCKETS) + 2)
            found[bisect_left(BUCKETS, seconds)] += 1
            found[-1] += seconds

    def add(self, other: Sequence[Any]) -> None:
        """Add the values of another tally, as its `as_json` returned them."""
        counts, durations = other
        with self._lock:
            for name, labels, value in counts:
                key = (name, tuple(labels))
                self._counts[key] = self._counts.get(key, 0) + value
            for name, labels, values in durations:
                key = (name, tuple(labels))
                found = self._durations.get(key) or [0.0] * len(values)
                self._durations[key] = [a + b for a, b in zip(found, values, strict=True)]

    def as_json(self) -> tuple[list[Any], list[Any]]:
        """The counters and the histograms as JSON data: lists of name, labels and value."""
        with self._lock:
            counts = [(name, labels, value) for (name, labels), value in self._counts.items()]
            durations = [
                (name, labels, list(values)) for (name, labels), values in self._durations.items()
            ]
        return counts, durations
