"""Runs a worker pool as its own program until the queue is empty, and watches the depth."""

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
from rowlease.store import Reading, Store

#: Seconds between two looks at the depth.
LOOK_EVERY = 0.2
#: Seconds before a worker is started again, whose leases may still have to run out.
PAUSE = 0.5
#: A worker that fails this often in a row without finishing anything will not get better.
MAX_FAILURES = 3
#: Seconds that a worker has to finish what it runs when it is told to stop.
GRACE = 15


class DrainSample(NamedTuple):
    """What waited or ran at one moment.

    Attributes:
        seconds: since the drain began.
        depths: requests per priority.
    """

    seconds: float
    depths: dict[int, int]

    @property
    def total(self) -> int:
        """Requests of all priorities."""
        return sum(self.depths.values())


class Drained(NamedTuple):
    """How the drain went.

    Attributes:
        samples: at least two, the first with all requests.
        restarts: when a worker that had died was started again, in seconds since the beginning.
        summaries: what the workers that ended by themselves said of their run.
        failed: dead letters in the queue.
    """

    samples: list[DrainSample]
    restarts: list[float]
    summaries: list[dict[str, Any]]
    failed: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.samples[-1].seconds

    @property
    def finished(self) -> int:
        """How many requests left the queue."""
        return self.samples[0].total - self.samples[-1].total

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.finished / self.seconds if self.seconds else 0.0


class WorkerProcess:
    """One run of `rowlease worker` as a program of its own.

    Args:
        dsn: handed over in the environment, where other users cannot see it.
        concurrency: slots; None takes the worker's default, the cores.
        log: where what it says goes.
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
                # Ctrl-C reaches the demo alone, which then tells the worker.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._process.poll()

    def stop(self) -> None:
        """Let it finish what it runs, hand back the rest and leave; kill it if it does not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(GRACE)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
                self._process.wait()

    def summary(self) -> dict[str, Any] | None:
        """What it said at its end, if it came so far. Closes the pipe: ask once."""
        try:
            text = self._process.communicate()[0]
            said = json.loads(text)
        except ValueError:
            return None
        return said if isinstance(said, dict) else None


def drain(
    store: Store,
    start_worker: Callable[[], WorkerProcess],
    show: Callable[[DrainSample], object],
    say: Callable[[str], object],
    log: Path,
) -> Drained:
    """Run workers until nothing waits or runs; start another one when one dies.

    A dead worker's requests are run again when their leases have run out. Interrupted, it stops the
    worker first.

    Args:
        start_worker: starts one.
        show: called with every sample.
        say: called with a sentence when a worker has died.
        log: the worker's messages, for an error.

    Raises:
        RowleaseError: the worker fails at once, again and again.
    """
    began = time.monotonic()
    samples, restarts, summaries = [_look(store, 0.0)], [], []
    worker, failures, left_at_start = None, 0, samples[0].total
    try:
        while (sample := _look(store, time.monotonic() - began)).total or worker is not None:
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
                        raise RowleaseError(f"the worker does not start: {_last_line(log)}")
                    restarts.append(sample.seconds)
                    say(f"The worker {_how(code)}; starting it again. Its leases have to run out.")
                time.sleep(PAUSE)
            time.sleep(LOOK_EVERY)
        samples.append(_look(store, time.monotonic() - began))
    finally:
        if worker is not None:
            worker.stop()
            worker.summary()
    failed = sum(depth.failed for depth in store.depth(QUEUE))
    return Drained(_trimmed(samples), restarts, summaries, failed)


def _look(store: Reading, seconds: float) -> DrainSample:
    """What waits or runs now."""
    depths = {
        depth.priority: depth.scheduled + depth.pending + depth.processing
        for depth in store.depth(QUEUE)
    }
    return DrainSample(seconds, {priority: count for priority, count in depths.items() if count})


def _trimmed(samples: list[DrainSample]) -> list[DrainSample]:
    """Without the end, where the queue is empty and the worker says goodbye."""
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
