"""Samples of a database, for the screens: counts at one moment, and rates between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import monotonic

from rowlease.model import Depth, QueueState, Waits, WorkerState
from rowlease.store import Store

#: Seconds over which a present rate is measured.
RATE_SECONDS = 15.0


@dataclass(frozen=True)
class Sample:
    """Counters and small tables at one moment.

    Attributes:
        at: seconds of a monotonic clock.
        waits: by queue; the key None is all queues together. Empty if they were not measured.
    """

    time: datetime
    at: float
    depth: list[Depth]
    queues: list[QueueState]
    workers: list[WorkerState]
    waits: dict[str | None, Waits] = field(default_factory=dict)

    @cached_property
    def _depth_by_queue(self) -> dict[str | None, list[Depth]]:
        found: dict[str | None, list[Depth]] = {None: self.depth}
        for row in self.depth:
            found.setdefault(row.queue_name, []).append(row)
        return found

    @cached_property
    def _totals(self) -> dict[str | None, tuple[int, int]]:
        found: dict[str | None, tuple[int, int]] = {
            one.queue_name: (one.num_finished, one.num_failures) for one in self.queues
        }
        finished, failed = zip((0, 0), *found.values(), strict=True)
        return found | {None: (sum(finished), sum(failed))}

    def pending(self, queue: str | None = None) -> dict[int, int]:
        """The number of pending requests by priority, of one queue or all."""
        counts: dict[int, int] = {}
        for row in self._depth_by_queue.get(queue, ()):
            if row.pending:
                counts[row.priority] = counts.get(row.priority, 0) + row.pending
        return counts

    def total(self, status: str, queue: str | None = None) -> int:
        """The number of requests in a status, such as `processing`."""
        return sum(getattr(row, status) for row in self._depth_by_queue.get(queue, ()))

    def finished(self, queue: str | None = None) -> tuple[int, int]:
        """The totals of completed requests and of failed attempts."""
        return self._totals.get(queue, (0, 0))

    def has(self, queue: str | None) -> bool:
        """Whether the queue was there."""
        return queue in self._totals

    def oldest(self) -> timedelta | None:
        """The longest time that any request has been due."""
        return max((one.oldest for one in self.queues if one.oldest is not None), default=None)


def take_sample(store: Store) -> Sample:
    """The present counts of a database, without waits.

    Raises:
        StoreError: the database refused or failed a call.
    """
    queues, at = store.list_queues(), monotonic()
    return Sample(datetime.now(UTC), at, store.depth(), queues, store.list_workers())


def rate_between(before: Sample, after: Sample, queue: str | None) -> tuple[float, float]:
    """Completed requests and failed attempts per second."""
    seconds = max(after.at - before.at, 0.001)
    done, failed = (
        max(0, late - early) / seconds
        for early, late in zip(before.finished(queue), after.finished(queue), strict=True)
    )
    return done, failed


def rate_now(samples: Iterable[Sample], queue: str | None = None) -> tuple[float, float] | None:
    """The rates of the last RATE_SECONDS; None if no earlier sample has the queue."""
    *earlier, last = samples
    for before in earlier:
        if before.at >= last.at - RATE_SECONDS and before.has(queue):
            return rate_between(before, last, queue)
    return None
