"""Counts the requests and outcomes of a worker in one run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Counts:
    """The number of requests claimed so far, and the number of each outcome."""

    claimed: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    dead: int = 0
    abandoned: int = 0
    declined: int = 0
    snoozed: int = 0
    lost: int = 0


class Summary(NamedTuple):
    """The summary of one run of a worker.

    Attributes:
        claimed: requests claimed.
        finished: requests completed.
        failed: attempts that failed.
        cancelled: requests that were cancelled while they ran.
        dead: requests that became dead letters by an outcome of this worker.
        abandoned: requests that were handed back: prefetched ones that could not start soon, and
            those that still ran when the worker stopped.
        declined: requests of kinds that this worker does not know, left to other workers.
        snoozed: requests that their tasks have snoozed.
        lost: leases lost; the outcomes of their requests did not count.
        crashed: child processes that died.
        undelivered: outcomes that did not reach the database; their requests run again.
        seconds: the duration of the run, from the time when the slots became ready.
        slots: the number of tasks that could run at once.
        task_seconds: the total run time of all tasks, in seconds.
    """

    claimed: int
    finished: int
    failed: int
    cancelled: int
    dead: int
    abandoned: int
    declined: int
    snoozed: int
    lost: int
    crashed: int
    undelivered: int
    seconds: float
    slots: int
    task_seconds: float

    @classmethod
    def of(cls, summaries: Iterable[Summary]) -> Summary:
        """The sums of several workers' summaries, with the `seconds` of the longest run."""
        numbers = list(zip(*summaries, strict=True)) or [(0,)] * len(cls._fields)
        total = cls(*map(sum, numbers))
        return total._replace(seconds=max(numbers[cls._fields.index("seconds")]))

    def __str__(self) -> str:
        rate = self.finished / self.seconds if self.seconds else 0.0
        parts = [f"{self.finished:,} finished"]
        for name in (
            "failed", "cancelled", "dead", "abandoned", "declined", "snoozed", "lost", "crashed",
            "undelivered",
        ):  # fmt: skip
            if count := getattr(self, name):
                word = "handed back" if name == "abandoned" else name
                parts.append(f"{count:,} {word}")
        return f"{', '.join(parts)} in {self.seconds:.1f} s ({rate:,.0f}/s)"
