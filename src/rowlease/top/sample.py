"""The figures of `rowlease top`: counts, and rates between two samples."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from rowlease.model import QueueState, WorkerState
from rowlease.samples import Sample, rate_now, take_sample
from rowlease.store import Store

#: The number of samples of which each queue keeps the number of pending requests.
MAX_HISTORY = 60


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
        self._kept: deque[Sample] = deque(maxlen=MAX_HISTORY)

    def sample(self) -> TopSample:
        """The present counts, and the rates since earlier samples.

        Raises:
            StoreError: the database refused or failed a call.
        """
        latest = take_sample(self._store)
        self._kept.append(latest)
        return TopSample([self._queue(latest, one) for one in latest.queues], latest.workers)

    def _queue(self, latest: Sample, state: QueueState) -> SampledQueue:
        name = state.queue_name
        finished, failed = rate_now(self._kept, name) or (None, None)
        return SampledQueue(
            name,
            state.paused,
            latest.pending(name),
            latest.total("scheduled", name),
            latest.total("processing", name),
            latest.total("failed", name),
            finished,
            failed,
            None if state.oldest is None else state.oldest.total_seconds(),
            tuple(one.total("pending", name) for one in self._kept if one.has(name)),
        )
