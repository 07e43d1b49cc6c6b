"""The figures of the last 15 minutes, sampled by a thread while the dashboard runs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from time import monotonic

from rowlease.errors import RowleaseError
from rowlease.model import Finding, Waits
from rowlease.samples import Sample, rate_between, take_sample
from rowlease.store import Store

#: Seconds between two samples.
SAMPLE_SECONDS = 5.0
#: The number of samples that are kept: 15 minutes.
MAX_KEPT_SAMPLES = 180
#: Every twelfth sample also looks for findings of the queues: once a minute.
SAMPLES_PER_EXAMINATION = 12
#: The maximum number of completed requests whose waits a sample reads.
MAX_SAMPLED_WAITS = 2000

log = logging.getLogger("rowlease.dashboard")


class Samples:
    """Takes samples and keeps the latest. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: deque[Sample] = deque(maxlen=MAX_KEPT_SAMPLES)
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
            is_late = not self._kept or monotonic() - self._kept[-1].at > 2 * SAMPLE_SECONDS
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
                if turn % SAMPLES_PER_EXAMINATION == 0:
                    self.findings = self._store.diagnose()
            except RowleaseError as error:  # a page says so; the next sample may succeed
                log.debug("no sample: %s", error)
            turn += 1
            if self._ends.wait(SAMPLE_SECONDS):
                return

    def _take(self) -> None:
        last = self._kept[-1] if self._kept else None
        self._is_stale = False
        sample = take_sample(self._store)
        waits = self._store.measure_waits(within=window(last, sample), look=MAX_SAMPLED_WAITS)
        sample.waits.update((one.queue_name, one) for one in waits)
        self._kept.append(sample)


def window(last: Sample | None, sample: Sample) -> timedelta:
    """The time in which about MAX_SAMPLED_WAITS requests were completed: from 5 s to a minute."""
    rate = 0.0 if last is None else rate_between(last, sample, None)[0]
    return timedelta(seconds=min(60.0, max(5.0, MAX_SAMPLED_WAITS / rate if rate else 60.0)))


def rates(samples: list[Sample], queue: str | None = None) -> list[tuple[float, float]]:
    """Completed requests and failed attempts per second, from each sample to the next."""
    return [rate_between(before, after, queue) for before, after in pairwise(samples)]


def waits(
    samples: list[Sample], of: Callable[[Waits], int], queue: str | None = None
) -> list[float | None]:
    """A percentile of each sample; None if nothing was completed."""
    found = (sample.waits.get(queue) for sample in samples)
    return [None if one is None else of(one) for one in found]
