"""Runs a worker in its own process until the queue is empty, and samples the depth."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rowlease.demo.job import QUEUE
from rowlease.errors import RowleaseError
from rowlease.store import Store

#: Seconds between two samples of the depth.
SAMPLE_INTERVAL_SECONDS = 0.2
#: Seconds before a worker that has ended is replaced.
REPLACEMENT_SECONDS = 0.5
#: The number of successive failures, without a finished request, after which the demo gives up.
MAX_FAILURES = 3
#: Seconds within which a worker must finish its running tasks after it was asked to stop.
GRACE_SECONDS = 15


class DrainSample(NamedTuple):
    """The number of requests that waited or ran at one moment.

    Attributes:
        seconds: the time since the drain began.
        depths: the number of requests by priority.
    """

    seconds: float
    depths: dict[int, int]

    @property
    def total(self) -> int:
        """The number of requests of all priorities."""
        return sum(self.depths.values())


class Drained(NamedTuple):
    """The record of a drain.

    Attributes:
        samples: at least two samples. The first counts all requests that the drain began with.
        restarts: the times at which a dead worker was replaced, in seconds since the drain began.
        summaries: the summaries of the workers that ended normally.
        failed: the number of dead letters in the queue.
    """

    samples: list[DrainSample]
    restarts: list[float]
    summaries: list[dict[str, Any]]
    failed: int

    @property
    def seconds(self) -> float:
        """The time that the drain took."""
        return self.samples[-1].seconds

    @property
    def finished(self) -> int:
        """The number of requests that were completed or cancelled, or became dead letters."""
        return self.samples[0].total - self.samples[-1].total

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.finished / self.seconds if self.seconds else 0.0


class WorkerProcess:
    """A process that runs `rowlease worker`.

    Args:
        dsn: the DSN, which is passed in the environment so that other users cannot see it.
        concurrency: the number of slots; None means the default, the usable cores.
        log: the file for the worker's stderr.
    """

    def __init__(self, dsn: str, concurrency: int | None, log: Path) -> None:
        command = [sys.executable, "-m", "rowlease", "worker", "rowlease.demo.tasks"]
        command += ["--queue", QUEUE, "--burst", "--json"]
        if concurrency is not None:
            command += ["--concurrency", str(concurrency)]
        with log.open("ab") as messages:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                env={**os.environ, "ROWLEASE_DSN": dsn},
                # In a new session the worker gets no Ctrl-C; the demo stops it instead.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code, which is negative if a signal ended the worker. None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Let the worker drain, and kill it if it does not end in time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(GRACE_SECONDS)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
                self._process.wait()

    def summary(self) -> dict[str, Any] | None:
        """The summary that the worker printed, or None if it did not end normally.

        Call this only once.
        """
        try:
            text = self._process.communicate()[0]
            found = json.loads(text)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def drain(
    store: Store,
    start_worker: Callable[[], WorkerProcess],
    show: Callable[[DrainSample], object],
    say: Callable[[str], object],
    log: Path,
) -> Drained:
    """Run a worker until no request waits or runs, and replace the worker if it dies.

    The requests of a dead worker are run again when their leases have run out. If this call is
    interrupted, it stops the worker first.

    Args:
        start_worker: a function that starts a worker.
        show: a function that is called with each sample.
        say: a function that is called with a sentence when a worker has died.
        log: the file with the worker's stderr; its last line is quoted if the demo gives up.

    Raises:
        RowleaseError: several workers in succession failed without finishing a request.
    """
    began = time.monotonic()
    samples, restarts, summaries = [_sample(store, 0.0)], [], []
    worker, failures, left_at_start = None, 0, samples[0].total
    try:
        while (sample := _sample(store, time.monotonic() - began)).total or worker is not None:
            samples.append(sample)
            show(sample)
            if worker is None:
                worker, left_at_start = start_worker(), sample.total
            elif (code := worker.exit_code) is not None:
                if (summary := worker.summary()) is not None:
                    summaries.append(summary)
                worker = None
                if code == 0 and not sample.total:
                    continue
                if code != 0:
                    failures = 0 if sample.total < left_at_start else failures + 1
                    if failures >= MAX_FAILURES:
                        raise RowleaseError(
                            f"the worker failed {MAX_FAILURES} times in a row without finishing a "
                            f"request: {_last_line(log)}"
                        )
                    restarts.append(sample.seconds)
                    say(
                        f"The worker {_how(code)}; starting it again. The requests that it leased "
                        "wait until their leases have run out."
                    )
                time.sleep(REPLACEMENT_SECONDS)
            time.sleep(SAMPLE_INTERVAL_SECONDS)
        samples.append(_sample(store, time.monotonic() - began))
    finally:
        if worker is not None:
            worker.stop()
            worker.summary()
    failed = sum(depth.failed for depth in store.depth(QUEUE))
    return Drained(_trimmed(samples), restarts, summaries, failed)


def _sample(store: Store, seconds: float) -> DrainSample:
    """A sample of the requests that wait or run now."""
    depths = {
        depth.priority: depth.scheduled + depth.pending + depth.processing
        for depth in store.depth(QUEUE)
    }
    return DrainSample(seconds, {priority: count for priority, count in depths.items() if count})


def _trimmed(samples: list[DrainSample]) -> list[DrainSample]:
    """The samples up to the first empty queue; after that the worker only shuts down."""
    empty = [place for place, sample in enumerate(samples) if not sample.total]
    return samples[: empty[0] + 1] if empty and empty[0] > 0 else samples


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else f"it wrote nothing to {log}"
