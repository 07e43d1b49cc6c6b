"""The figures of the last 15 minutes, sampled by a thread while the dashboard runs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import NamedTuple

from rowlease.errors import RowleaseError
from rowlease.model import Depth, Finding, QueueState, Waits, WorkerState
from rowlease.store import Store

#: Seconds between two samples.
INTERVAL = 5.0
#: The number of samples that are kept: 15 minutes.
KEPT = 180
#: Every twelfth sample also looks for findings of the queues: once a minute.
BETWEEN_FINDINGS = 12
#: The maximum number of completed requests whose waits a sample reads.
LOOK = 2000

log = logging.getLogger("rowlease.dashboard")


class Sample(NamedTuple):
    """Counters and small tables at one moment.

    Attributes:
        at: seconds of a monotonic clock.
    """

    time: datetime
    at: float
    depth: list[Depth]
    queues: list[QueueState]
    waits: dict[str | None, Waits]
    workers: list[WorkerState]

    def pending(self, queue: str | None = None) -> dict[int, int]:
        """The number of pending requests by priority, of one queue or all."""
        counts: dict[int, int] = {}
        for row in self.depth:
            if queue in (None, row.queue_name) and row.pending:
                counts[row.priority] = counts.get(row.priority, 0) + row.pending
        return counts

    def total(self, status: str, queue: str | None = None) -> int:
        """The number of requests in a status, such as `processing`."""
        rows = (row for row in self.depth if queue in (None, row.queue_name))
        return sum(getattr(row, status) for row in rows)

    def finished(self, queue: str | None = None) -> tuple[int, int]:
        """The totals of completed requests and of failed attempts."""
        found = [one for one in self.queues if queue in (None, one.queue_name)]
        return sum(one.num_finished for one in found), sum(one.num_failures for one in found)

    def oldest(self) -> timedelta | None:
        """The longest time that any request has been due."""
        return max((one.oldest for one in self.queues if one.oldest is not None), default=None)


class Samples:
    """Takes samples and keeps the latest. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: deque[Sample] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stale = False
        #: The problems of the queues that the routine `diagnose` has found.
        self.findings: list[Finding] = []

    def latest(self) -> Sample:
        """A sample that is at most a few seconds old.

        Raises:
            StoreError: the database refused or failed a call.
        """
        with self._lock:
            is_late = not self._kept or monotonic() - self._kept[-1].at > 2 * INTERVAL
            if is_late or self._is_stale:
                self._take()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="rowlease-dashboard", daemon=True
                )
                self._thread.start()
            return self._kept[-1]

    def expire(self) -> None:
        """Have the next page take a sample, because something was changed."""
        self._is_stale = True

    def all(self) -> list[Sample]:
        """The samples that are kept, the oldest first."""
        with self._lock:
            return list(self._kept)

    def close(self) -> None:
        """End the thread."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        turn = 0
        while True:
            try:
                with self._lock:
                    if turn:  # latest() has just taken the first
                        self._take()
                if turn % BETWEEN_FINDINGS == 0:
                    self.findings = self._store.diagnose()
            except RowleaseError as error:  # a page says so; the next sample may succeed
                log.debug("no sample: %s", error)
            turn += 1
            if self._ends.wait(INTERVAL):
                return

    def _take(self) -> None:
        last = self._kept[-1] if self._kept else None
        self._is_stale = False
        queues, at = self._store.list_queues(), monotonic()
        waits = self._store.measure_waits(within=window(last, queues, at), look=LOOK)
        sample = Sample(
            datetime.now(UTC),
            at,
            self._store.depth(),
            queues,
            {one.queue_name: one for one in waits},
            self._store.list_workers(),
        )
        self._kept.append(sample)


def window(last: Sample | None, queues: Iterable[QueueState], at: float) -> timedelta:
    """The time in which about LOOK requests were completed: from 5 s to a minute."""
    if last is None:
        return timedelta(minutes=1)
    done = sum(one.num_finished for one in queues) - last.finished()[0]
    rate = max(0, done) / max(at - last.at, 0.001)
    return timedelta(seconds=min(60.0, max(5.0, LOOK / rate if rate else 60.0)))


def rates(samples: list[Sample], queue: str | None = None) -> list[tuple[float, float]]:
    """Completed requests and failed attempts per second, from each sample to the next."""
    return [_rate(before, after, queue) for before, after in pairwise(samples)]


def rate_now(samples: list[Sample], queue: str | None = None) -> tuple[float, float] | None:
    """The rates of the last half minute; None if there is only one sample."""
    recent = samples[-7:]
    return _rate(recent[0], recent[-1], queue) if len(recent) > 1 else None


def _rate(before: Sample, after: Sample, queue: str | None) -> tuple[float, float]:
    seconds = max(after.at - before.at, 0.001)
    done, failed = (
        max(0, late - early) / seconds
        for early, late in zip(before.finished(queue), after.finished(queue), strict=True)
    )
    return done, failed


def waits(
    samples: list[Sample], of: Callable[[Waits], int], queue: str | None = None
) -> list[float | None]:
    """A percentile of each sample; None if nothing was completed."""
    found = (sample.waits.get(queue) for sample in samples)
    return [None if one is None else of(one) for one in found]
