"""What a worker did in one run, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Counts:
    """How many requests went which way."""

    claimed: int = 0
    finished: int = 0
    failed: int = 0
    dead: int = 0
    abandoned: int = 0
    lost: int = 0


class Summary(NamedTuple):
    """What a worker did in one run.

    Attributes:
        claimed: requests leased.
        finished: complete.
        failed: attempts that failed.
        dead: requests that became dead letters when this worker reported on them.
        abandoned: given up, to wait again.
        lost: leases lost, whose outcomes did not count.
        crashed: child processes that died.
        undelivered: outcomes that did not reach the database; their requests run again.
        seconds: since the children were ready.
        slots: how many tasks could run at once.
        task_seconds: how long tasks ran, summed over the slots.
    """

    claimed: int
    finished: int
    failed: int
    dead: int
    abandoned: int
    lost: int
    crashed: int
    undelivered: int
    seconds: float
    slots: int
    task_seconds: float

    @classmethod
    def of(cls, summaries: Iterable[Summary]) -> Summary:
        """What several workers did, taken together; `seconds` are those of the longest run."""
        numbers = list(zip(*summaries, strict=True)) or [(0,)] * len(cls._fields)
        total = cls(*map(sum, numbers))
        return total._replace(seconds=max(numbers[cls._fields.index("seconds")]))

    def __str__(self) -> str:
        rate = self.finished / self.seconds if self.seconds else 0.0
        parts = [f"{self.finished:,} finished"]
        for name in ("failed", "dead", "abandoned", "lost", "crashed", "undelivered"):
            if count := getattr(self, name):
                parts.append(f"{count:,} {name}")
        return f"{', '.join(parts)} in {self.seconds:.1f} s ({rate:,.0f}/s)"
