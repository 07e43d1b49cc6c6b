"""The exporter: one for each database.

It reads counters, small tables and a bounded number of index entries, however long a queue is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from rowlease.clock import now
from rowlease.errors import StoreError
from rowlease.metrics.examination import Examination
from rowlease.metrics.prometheus_format import labelled
from rowlease.model import Depth, Finding, Metric, WorkerState
from rowlease.store import Store, place_of
from rowlease.visible import visible

#: The time for which scrapes get the values of one reading of the database.
CACHE_TIME = timedelta(seconds=5)
#: The time limit of each call to the database. A scrape makes five calls, and by default Prometheus
#: gives up on a scrape after 10 s.
SCRAPE_CALL_TIMEOUT = timedelta(seconds=2)

#: The gauges: documentation and labels, by name.
GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rowlease_requests": (
        "Requests that wait, run or have failed, by priority and status",
        ("queue", "priority", "status"),
    ),
    "rowlease_demand": (
        "Slots that a queue could use now: requests that are ready or leased",
        ("queue",),
    ),
    "rowlease_oldest_request_seconds": (
        "Time since the oldest waiting request was due; 0 if none waits",
        ("queue",),
    ),
    "rowlease_overdue_leases": (
        "Leases that ran out and were not broken, up to 1,000",
        ("queue",),
    ),
    "rowlease_queue_paused": ("1 if the queue is paused", ("queue",)),
    "rowlease_queue_capacity": (
        "Requests that may wait in the queue; only of queues with a capacity",
        ("queue",),
    ),
    "rowlease_queue_free_places": (
        "Requests that may be added to those that wait; only of queues with a capacity",
        ("queue",),
    ),
    "rowlease_workers": ("Workers of the queue that are alive", ("queue",)),
    "rowlease_silent_workers": (
        "Registered workers without a heartbeat for 30 s; a killed worker stays for 1 h",
        (),
    ),
    "rowlease_slots": ("Slots of all workers that are alive", ()),
    "rowlease_busy_slots": ("Slots that run a task", ()),
    "rowlease_schedule_late_seconds": (
        "Time by which the next firing of the schedule is late; 0 if it is not late",
        ("schedule",),
    ),
    "rowlease_staging_loads": ("Loads that have not been promoted", ("queue",)),
    "rowlease_load_silent_seconds": (
        "Longest time for which a load that is not promoted has reported no progress",
        ("queue",),
    ),
    "rowlease_dead_rows": ("Dead rows that vacuum has not removed yet", ("table",)),
    "rowlease_horizon_seconds": (
        "Age of the oldest transaction that keeps dead rows from being removed, of those that the "
        "user may see",
        (),
    ),
    "rowlease_connections": ("Connections to the server", ()),
    "rowlease_max_connections": ("Connections that the server allows", ()),
    "rowlease_findings": (
        "1 for each finding of `rowlease doctor`, at most a minute old",
        ("finding", "subject"),
    ),
}
#: The counters, which the database keeps.
COUNTERS = {
    "rowlease_finished_requests_total": "Requests that were completed",
    "rowlease_failed_attempts_total": "Attempts that failed",
}


class DatabaseMetrics:
    """The metrics of a database, for a registry of prometheus_client.

    A scrape reads the database with five statements. Scrapes within `cache` get the same values, so
    several Prometheus servers cost no more than one. If the database does not answer,
    `rowlease_up` is 0 and most other metrics are left out.

    Args:
        store: a store. The role rowlease_reader is enough.
        cache: the time for which scrapes get the values of one reading of the database.
        examination: finds the problems of the database; None leaves `rowlease_findings` out.
    """

    def __init__(
        self,
        store: Store,
        cache: timedelta = CACHE_TIME,
        examination: Examination | None = None,
    ) -> None:
        self._store = store.within(SCRAPE_CALL_TIMEOUT)
        self._database = place_of(store.where)
        self._examination = examination
        self._cache = cache.total_seconds()
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._families: list[Any] = []
        self._error = ""

    def collect(self) -> list[Any]:
        """The metric families. Safe from any thread; one thread reads, and others wait for it."""
        with self._lock:
            if now() - self._read_at >= self._cache:
                self._families = list(labelled(self._read(), self._database))
                self._read_at = now()
            return self._families

    def _read(self) -> Iterator[Any]:
        began_at = now()
        try:
            families = self._families_of_database()
            self._error = ""
        except StoreError as error:
            families = []
            if str(error) != self._error:
                logging.getLogger("rowlease").warning("cannot read the database: %s", error)
            self._error = str(error)
        up = float(not self._error)
        yield GaugeMetricFamily("rowlease_up", "1 if the database answered", value=up)
        yield GaugeMetricFamily(
            "rowlease_scrape_seconds", "Time that the database took", value=now() - began_at
        )
        yield InfoMetricFamily("rowlease_exporter", "", value={"version": version("rowlease")})
        yield from families

    def _families_of_database(self) -> list[Any]:
        queues, depths = self._store.list_queues(), self._store.depth()
        workers, found = self._store.list_workers(), self._store.metrics()
        found += self._store.metrics_server()
        gauges = {
            name: GaugeMetricFamily(name, documentation, labels=labels)
            for name, (documentation, labels) in GAUGES.items()
        }
        counters = {name: CounterMetricFamily(name, text, labels=("queue",))
                    for name, text in COUNTERS.items()}  # fmt: skip
        for queue in queues:
            labels = (queue.queue_name,)
            age = queue.oldest.total_seconds() if queue.oldest is not None else 0.0
            gauges["rowlease_oldest_request_seconds"].add_metric(labels, age)
            gauges["rowlease_queue_paused"].add_metric(labels, float(queue.paused))
            counters["rowlease_finished_requests_total"].add_metric(labels, queue.num_finished)
            counters["rowlease_failed_attempts_total"].add_metric(labels, queue.num_failures)
        names = [queue.queue_name for queue in queues]
        add_depths(gauges["rowlease_requests"], depths, names)
        add_workers(gauges, workers, names)
        for metric, subject, value in found:
            if gauge := gauges.get(f"rowlease_{metric}"):  # a later release may return more metrics
                gauge.add_metric((subject,) if subject else (), value)
        add_free_places(gauges["rowlease_queue_free_places"], found, depths)
        if self._examination is not None:
            add_findings(gauges["rowlease_findings"], self._examination.findings or [])
        return [*gauges.values(), *counters.values()]


def add_depths(family: Any, depths: list[Depth], queues: list[str]) -> None:
    """Add the depth of each queue and priority. An empty queue has zeros at priority 0."""
    missing = set(queues) - {depth.queue_name for depth in depths}
    for depth in [*depths, *(Depth(name, 0, 0, 0, 0, 0) for name in sorted(missing))]:
        for status in ("Scheduled", "Pending", "Processing", "Failed"):
            labels = (depth.queue_name, str(depth.priority), status)
            family.add_metric(labels, getattr(depth, status.lower()))


def add_free_places(family: Any, found: list[Metric], depths: list[Depth]) -> None:
    """Add the places that are left in each queue with a capacity."""
    for metric, queue, capacity in found:
        if metric == "queue_capacity":
            waiting = sum(one.scheduled + one.pending for one in depths if one.queue_name == queue)
            family.add_metric((queue,), max(0, capacity - waiting))


def add_findings(family: Any, findings: list[Finding]) -> None:
    """Add a sample for each kind of finding and each subject."""
    for labels in {(visible(one.finding), visible(one.subject)) for one in findings}:
        family.add_metric(labels, 1)


def add_workers(gauges: dict[str, Any], workers: list[WorkerState], queues: list[str]) -> None:
    """Add the number of workers that are alive, by queue, and their slots."""
    alive = [worker for worker in workers if worker.is_alive]
    for queue in queues:
        number = sum(queue in worker.queue_names for worker in alive)
        gauges["rowlease_workers"].add_metric((queue,), number)
    gauges["rowlease_silent_workers"].add_metric((), len(workers) - len(alive))
    gauges["rowlease_slots"].add_metric((), sum(worker.slots for worker in alive))
    gauges["rowlease_busy_slots"].add_metric((), sum(worker.busy for worker in alive))
