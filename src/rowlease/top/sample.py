"""The figures of `rowlease top`: counts, and rates between two samples."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any, NamedTuple

from rowlease.model import Depth, WorkerState
from rowlease.store import Store

#: Seconds over which a rate is measured.
RATE_WINDOW = 5.0
#: The number of samples of which each queue keeps the number of pending requests.
HISTORY = 60


class SampledQueue(NamedTuple):
    """One queue.

    Attributes:
        pending: the number of pending requests by priority, the most urgent first.
        finished_rate, failed_rate: completed requests and failed attempts per second; None if no
            earlier sample can be compared.
        oldest_seconds: the longest time that a waiting request has been due; None if no request
            waits.
        history: how many requests were pending at the last samples, the oldest first.
    """

    name: str
    paused: bool
    pending: dict[int, int]
    scheduled: int
    processing: int
    failed: int
    finished_rate: float | None
    failed_rate: float | None
    oldest_seconds: float | None
    history: tuple[int, ...] = ()


class TopSample(NamedTuple):
    """The queues and workers of a database at one moment."""

    queues: list[SampledQueue]
    workers: list[WorkerState]

    def as_json(self) -> dict[str, Any]:
        """The sample as JSON data."""
        workers = []
        for worker in self.workers:
            seconds = worker.silent.total_seconds()
            workers.append({**worker._asdict(), "silent_seconds": seconds})
            del workers[-1]["silent"]
        return {"queues": [queue._asdict() for queue in self.queues], "workers": workers}


class Sampler:
    """Takes samples of a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._totals: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()
        self._histories: dict[str, deque[int]] = {}

    def sample(self) -> TopSample:
        """The present counts, and the rates since earlier samples.

        Raises:
            StoreError: the database refused or failed a call.
        """
        depths: dict[str, list[Depth]] = {}
        for depth in self._store.depth():
            depths.setdefault(depth.queue_name, []).append(depth)
        states, at = self._store.list_queues(), monotonic()
        while self._totals and self._totals[0][0] < at - RATE_WINDOW:
            self._totals.popleft()
        totals = {each.queue_name: (each.num_finished, each.num_failures) for each in states}
        self._totals.append((at, totals))
        queues = []
        for state in states:
            found = depths.get(state.queue_name, [])
            finished, failed = self._rates(state.queue_name)
            history = self._histories.setdefault(state.queue_name, deque(maxlen=HISTORY))
            history.append(sum(one.pending for one in found))
            queues.append(
                SampledQueue(
                    state.queue_name,
                    state.paused,
                    {one.priority: one.pending for one in found if one.pending},
                    sum(one.scheduled for one in found),
                    sum(one.processing for one in found),
                    sum(one.failed for one in found),
                    finished,
                    failed,
                    None if state.oldest is None else state.oldest.total_seconds(),
                    tuple(history),
                )
            )
        return TopSample(queues, self._store.list_workers())

    def _rates(self, name: str) -> tuple[float | None, float | None]:
        (before, then), (at, now) = self._totals[0], self._totals[-1]
        if at <= before or name not in then:
            return None, None
        finished, failed = (
            max(0, late - early) / (at - before)
            for early, late in zip(then[name], now[name], strict=True)
        )
        return finished, failed
