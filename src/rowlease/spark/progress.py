"""How far a load is: while Spark writes its rows, the ledger and the log are told of it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rowlease.errors import LoadLost, RowleaseError
from rowlease.store import Producing

logger = logging.getLogger("rowlease")

#: Seconds between two reports.
PAUSE = 1.0


class Reporter:
    """Adds up rows and reports them, once a second at most; that it cannot is no reason to fail.

    Raises:
        LoadLost: from `add` and `tell`: another run has taken the load over.
    """

    def __init__(self, store: Producing, load_id: str, run_number: int) -> None:
        self._store = store
        self._load_id = load_id
        self._run_number = run_number
        self._began = self._told_at = time.monotonic()
        self._rows = self._told = 0

    def add(self, rows: int) -> None:
        """So many more rows are on their way."""
        self._rows += rows
        if time.monotonic() >= self._told_at + PAUSE:
            self.tell()

    def tell(self) -> None:
        """Report what was not reported yet."""
        self._told_at = time.monotonic()
        if self._rows == self._told:
            return
        try:
            self._store.report_load(self._load_id, self._run_number, self._rows - self._told)
            self._told = self._rows
        except LoadLost:
            raise
        except RowleaseError as error:
            logger.debug("load %s: its rows could not be reported: %s", self._load_id, error)
        rate = self._rows / max(self._told_at - self._began, 1e-3)
        logger.info("load %s: %s rows staged, %.0f a second", self._load_id, self._rows, rate)


@contextmanager
def reported(context: Any, store: Producing, load_id: str, run_number: int) -> Iterator[None]:
    """Report what the Spark jobs started in this block have written, as their tasks end.

    Raises:
        LoadLost: another run has taken the load over; the jobs were cancelled.
    """
    tag = f"rowlease-{uuid.uuid4().hex}"
    reporter = Reporter(store, load_id, run_number)
    seen = 0
    over = threading.Event()

    def look() -> None:
        nonlocal seen
        found = records_written(context, tag)
        reporter.add(found - seen)
        seen = found

    def watch() -> None:
        try:
            while not over.wait(PAUSE):
                look()
        except LoadLost:  # who asks once more, at the end, is told again
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
        look()
        reporter.tell()


def records_written(context: Any, tag: str) -> int:
    """Rows that the tasks of tagged jobs have written so far, as far as the driver knows."""
    from py4j.protocol import Py4JError

    driver = context._jsc.sc()
    rows = 0
    for job in driver.statusTracker().getJobIdsForTag(tag):
        info = context.statusTracker().getJobInfo(job)
        for stage in info.stageIds if info else ():
            with suppress(Py4JError):  # a stage that has not begun
                rows += driver.statusStore().lastStageAttempt(stage).outputRecords()
    return rows
