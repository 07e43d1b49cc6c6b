"""Reports the progress of a load to the database and the log while Spark writes its rows."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rowlease.errors import LoadLost, RowleaseError
from rowlease.store import Store

logger = logging.getLogger("rowlease")

#: Seconds between two reports.
REPORT_SECONDS = 1.0


class Reporter:
    """Counts rows, and reports their number at most once a second.

    All errors of a report are ignored, except LoadLost.

    Raises:
        LoadLost: another run has taken the load over (raised by `add` and `report`).
    """

    def __init__(self, store: Store, load_id: str, run_number: int) -> None:
        self._store = store
        self._load_id = load_id
        self._run_number = run_number
        self._began = self._reported_at = time.monotonic()
        self._rows = self._reported = 0

    def add(self, rows: int) -> None:
        """Count rows that are being written."""
        self._rows += rows
        if time.monotonic() >= self._reported_at + REPORT_SECONDS:
            self.report()

    def report(self) -> None:
        """Report the number of rows since the last report."""
        self._reported_at = time.monotonic()
        if self._rows == self._reported:
            return
        try:
            self._store.report_load(self._load_id, self._run_number, self._rows - self._reported)
            self._reported = self._rows
        except LoadLost:
            raise
        except RowleaseError as error:
            logger.debug("load %s: its rows could not be reported: %s", self._load_id, error)
        _log(self._load_id, self._rows, self._began)


@contextmanager
def reported(context: Any, store: Store, load_id: str, run_number: int) -> Iterator[None]:
    """Report the rows of the Spark jobs that start in this block, as their tasks end.

    Raises:
        LoadLost: another run has taken the load over, and the jobs were cancelled.
    """
    tag = f"rowlease-{uuid.uuid4().hex}"
    reporter = Reporter(store, load_id, run_number)
    seen = 0
    over = threading.Event()

    def report_new() -> None:
        nonlocal seen
        found = records_written(context, tag)
        reporter.add(found - seen)
        seen = found

    def watch() -> None:
        try:
            while not over.wait(REPORT_SECONDS):
                report_new()
        except LoadLost:  # the last report raises it again
            context.cancelJobsWithTag(tag)

    watcher = threading.Thread(target=watch, name="rowlease-load", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    finally:
        context.removeJobTag(tag)
        over.set()
        watcher.join()
        report_new()
        reporter.report()


@contextmanager
def logged(store: Store | None, load_id: str, run_number: int) -> Iterator[None]:
    """Log the number of rows that tasks have reported, each second if it has grown.

    Without a store, nothing is logged.
    """
    if store is None:
        yield
        return
    over, began = threading.Event(), time.monotonic()

    def watch() -> None:
        seen = 0
        while not over.wait(REPORT_SECONDS):
            with suppress(RowleaseError):  # a task meets it, too, and its error counts
                rows = store.report_load(load_id, run_number, 0)
                if rows > seen:
                    _log(load_id, rows, began)
                seen = rows

    watcher = threading.Thread(target=watch, name="rowlease-load", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _log(load_id: str, rows: int, began: float) -> None:
    rate = rows / max(time.monotonic() - began, 1e-3)
    logger.info("load %s: %s rows staged (%.0f/s)", load_id, rows, rate)


def records_written(context: Any, tag: str) -> int:
    """The number of rows that the tasks of tagged jobs have written, by the driver's metrics."""
    from py4j.protocol import Py4JError

    driver = context._jsc.sc()
    rows = 0
    for job in driver.statusTracker().getJobIdsForTag(tag):
        info = context.statusTracker().getJobInfo(job)
        for stage in info.stageIds if info else ():
            with suppress(Py4JError):  # the stage has not begun
                rows += driver.statusStore().lastStageAttempt(stage).outputRecords()
    return rows
