"""Reports whether a worker is live and ready, from times that its threads record, every second.

Only the state of a worker's process decides whether the worker is live, because probes restart a
worker that is not live. In an outage of the database, a worker is not ready but stays live.
Otherwise every worker of a fleet would be restarted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rowlease.clock import now
from rowlease.counts import first_line
from rowlease.events import (
    Event,
    Events,
    RenewalsLost,
    RenewalsRecovered,
    StoreLost,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from rowlease.worker.calls import CallMonitor
from rowlease.worker.timings import CALL_SILENT, CALL_STUCK, REPORT, STALLED


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


#: While this call is unanswered, the worker claims and runs requests nevertheless. So it stays
#: ready until the call is stuck.
HOUSEKEEPING = "maintain"


class HealthReport(NamedTuple):
    """The health of a worker, or of all workers of a supervisor together.

    Attributes:
        live: whether the worker makes progress; if not, a restart may help.
        ready: whether the worker claims requests and runs them.
        why: the reasons why the worker is not live or not ready, as sentences.
        draining: whether the worker claims nothing more and is about to end.
        slots: the number of tasks that can run at once.
        busy: the number of slots that run tasks.
        finished: the number of requests completed.
        started: whether the slots have been ready once.
    """

    live: bool
    ready: bool
    why: tuple[str, ...]
    draining: bool = False
    slots: int = 0
    busy: int = 0
    finished: int = 0
    started: bool = False

    def __str__(self) -> str:
        text = "draining; " if self.draining else ""
        text += f"{self.busy} of {self.slots} slots busy, {self.finished:,} finished"
        return "; ".join([text, *self.why])


class Stepping(Protocol):
    """The members of the dispatcher that health depends on."""

    stepped_at: float

    def busy(self) -> int: ...
    def num_ready(self) -> int: ...


class Answered(Protocol):
    """The members of the housekeeping that health depends on."""

    answered_at: float


class Health:
    """The health of one worker. `report` is safe from any thread and does not call the database.

    Attributes:
        changed: an event that is set when the next report is likely to differ. The thread that
            waits for the event clears it.
    """

    def __init__(self, events: Events, slots: int) -> None:
        self._slots = slots
        self._lost: str | None = None
        self._not_renewed: str | None = None
        self._started = False
        self._draining = False
        self._parts: tuple[Stepping, CallMonitor, Answered] | None = None
        self._finished: Callable[[], int] = lambda: 0
        self.changed = threading.Event()
        events.subscribe(
            self._note,
            *(WorkerStarted, WorkerStopping, WorkerStopped, StoreLost, StoreRecovered),
            *(RenewalsLost, RenewalsRecovered),
        )

    def watch(
        self,
        dispatcher: Stepping,
        calls: CallMonitor,
        housekeeping: Answered,
        finished: Callable[[], int],
    ) -> None:
        """Start to watch these components of the worker."""
        self._finished = finished
        self._parts = dispatcher, calls, housekeeping

    def report(self) -> HealthReport:
        """The current health."""
        if self._parts is None:
            starting = ("its slots are not ready yet",)
            return HealthReport(
                True, False, starting, self._draining, self._slots, started=self._started
            )
        dispatcher, calls, housekeeping = self._parts
        at = now()
        since_step = at - dispatcher.stepped_at
        waiting = [call for call in calls.waiting() if at - call.since > CALL_SILENT]
        live = not self._started or (
            since_step <= STALLED and all(at - call.since <= CALL_STUCK for call in waiting)
        )
        why = []
        if self._started and since_step > STALLED:
            why.append(f"its dispatcher has been stalled for {since_step:.0f} s")
        why += [
            f"the call {call.name} of its thread {call.thread} has not been answered for "
            f"{at - call.since:.0f} s"
            for call in waiting
            if call.name != HOUSEKEEPING or at - call.since > CALL_STUCK
        ]
        if not self._started:
            why.append("its slots are not ready yet")
        elif not dispatcher.num_ready():
            why.append("no slot is ready: its child processes have died and are being restarted")
        if self._lost is not None:
            why.append(f"the database is unavailable: {self._lost}")
        if self._not_renewed is not None:
            why.append(self._not_renewed)
        if self._lost is None and at - housekeeping.answered_at > CALL_SILENT:
            why.append(f"the database has not answered for {at - housekeeping.answered_at:.0f} s")
        if self._draining:
            why.append("it is draining and claims no more")
        return HealthReport(
            live,
            not why,
            tuple(why),
            self._draining,
            self._slots,
            dispatcher.busy(),
            self._finished(),
            self._started,
        )

    def _note(self, event: Event) -> None:
        if isinstance(event, StoreLost):
            self._lost = first_line(event.error)
        elif isinstance(event, StoreRecovered):
            self._lost = None
        elif isinstance(event, RenewalsLost):
            self._not_renewed = (
                f"leases have not been renewed since {event.since:%H:%M:%S} UTC (the call "
                f"{event.call} fails), so it claims nothing: {first_line(event.error)}"
            )
        elif isinstance(event, RenewalsRecovered):
            self._not_renewed = None
        elif isinstance(event, WorkerStarted):
            self._started = True
        elif isinstance(event, WorkerStopping):
            self._draining = True
        else:
            self._parts = None  # the dispatcher has ended, so it must not count as stalled
        self.changed.set()
