"""Reads the progress of a pool from the counters in the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from rowlease.counts import counted
from rowlease.store import Store

logger = logging.getLogger("rowlease")


class PoolProgress(NamedTuple):
    """The progress of a pool.

    Attributes:
        seconds: the time since the pool began, in seconds.
        finished: the number of requests that any worker has completed in the pool's queues since
            the pool began.
        failed: the number of attempts that have failed on any worker in these queues since then.
        rate: the requests completed per second since the previous report.
        pending: the number of requests that are waiting now.
        processing: the number of requests that are leased now.
        slots: the number of slots of the pool's workers, from their heartbeats.
        busy: the number of these slots that run tasks.
    """

    seconds: float
    finished: int
    failed: int
    rate: float
    pending: int
    processing: int
    slots: int
    busy: int

    def __str__(self) -> str:
        text = f"{self.finished:,} finished ({self.rate:,.0f}/s)"
        text += f", {self.failed:,} failed" if self.failed else ""
        text += f", {self.pending:,} waiting, {self.processing:,} leased"
        return f"{text}, {counted(self.slots, 'slot')}"


def log_progress(progress: PoolProgress) -> None:
    """Log one line at level INFO."""
    logger.info("rowlease pool: %s", progress)


class PoolMonitor:
    """Reads the counters of a pool's queues and workers.

    Args:
        prefix: the start of the ids of the pool's workers.
    """

    def __init__(self, store: Store, queues: Sequence[str], prefix: str) -> None:
        self._store = store
        self._queues = set(queues)
        self._prefix = prefix
        self._is_empty = False
        self._began = self._before = (time.monotonic(), *self._totals())

    def is_drained(self) -> bool:
        """Whether two calls in a row found that no request runs, and none waits.

        Requests of paused queues do not count. A due request counts as scheduled, and not as
        waiting, until a claim or `maintain` has made it pending; and the end of a batch makes
        requests due. So the first of these two calls calls `maintain`.
        """
        was_empty, self._is_empty = self._is_empty, self._nothing_is_left()
        if self._is_empty and not was_empty:
            self._store.maintain()
        return self._is_empty and was_empty

    def _nothing_is_left(self) -> bool:
        waiting = set()
        for each in self._store.depth():
            if each.queue_name in self._queues:
                if each.processing:
                    return False
                if each.pending:
                    waiting.add(each.queue_name)
        if not waiting:
            return True
        return all(each.paused for each in self._store.list_queues() if each.queue_name in waiting)

    def progress(self) -> PoolProgress:
        """The current progress."""
        (began, *first), (before, done, _) = self._began, self._before
        self._before = at, finished, failed = (time.monotonic(), *self._totals())
        depths = [each for each in self._store.depth() if each.queue_name in self._queues]
        workers = [
            each
            for each in self._store.list_workers()
            if each.worker_id.startswith(self._prefix) and each.is_alive
        ]
        return PoolProgress(
            at - began,
            finished - first[0],
            failed - first[1],
            (finished - done) / max(at - before, 1e-3),
            sum(each.pending for each in depths),
            sum(each.processing for each in depths),
            sum(each.slots for each in workers),
            sum(each.busy for each in workers),
        )

    def _totals(self) -> tuple[int, int]:
        states = [each for each in self._store.list_queues() if each.queue_name in self._queues]
        return sum(each.num_finished for each in states), sum(each.num_failures for each in states)
