"""Sends a worker's health to its outlets every second, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from rowlease.worker.host.health import HealthReport
from rowlease.worker.timings import REPORT


class Outlet(Protocol):
    """A receiver of health reports: a health file, systemd or a supervisor."""

    def show(self, report: HealthReport) -> None: ...
    def close(self) -> None: ...


class HealthReporter:
    """Sends a report to every outlet at each interval, and at once when `changed` is set.

    Args:
        report: a function that returns the current health.
        changed: an event that is set when the next report is likely to differ.
        interval: the number of seconds between two reports.
    """

    def __init__(
        self,
        report: Callable[[], HealthReport],
        outlets: Sequence[Outlet],
        changed: threading.Event,
        interval: float = REPORT,
    ) -> None:
        self._report = report
        self._outlets = outlets
        self._changed = changed
        self._interval = interval
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="rowlease-reporter", daemon=True)

    def __enter__(self) -> HealthReporter:
        if self._outlets:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        for outlet in self._outlets:
            outlet.close()

    def _run(self) -> None:
        while not self._stopped:
            self._changed.clear()
            report = self._report()
            for outlet in self._outlets:
                outlet.show(report)
            self._changed.wait(self._interval)


def interval_of(watchdogs: Sequence[float]) -> float:
    """The seconds between two reports: each watchdog gets at least two within its time limit."""
    return min([REPORT, *(watchdog / 2 for watchdog in watchdogs)])
