"""Examines a database every minute, for the metric `rowlease_findings`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rowlease.errors import StoreError
from rowlease.model import Finding

#: Seconds between two examinations. One takes longer than a scrape may.
EXAMINATION_INTERVAL_SECONDS = 60.0


class Examination:
    """The findings of `rowlease doctor`, as a thread found them at most a minute ago.

    Args:
        examine: finds the problems of a database.

    Attributes:
        findings: the latest findings; None until the first are known.
    """

    def __init__(self, examine: Callable[[], list[Finding]]) -> None:
        self.findings: list[Finding] | None = None
        self._examine = examine
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rowlease-doctor", daemon=True)

    def __enter__(self) -> Examination:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def examine(self) -> None:
        """Find the problems now. That nobody may or can look for them is a finding, too."""
        try:
            self.findings = self._examine()
        except StoreError as error:
            message = f"the database was not examined: {error}"
            if not self.findings or self.findings[0].message != message:
                logging.getLogger("rowlease").warning("%s", message)
            action = "run `rowlease doctor` as the exporter's user"
            self.findings = [Finding("unexamined", "the database", message, action)]

    def _run(self) -> None:
        while True:
            self.examine()
            if self._stopped.wait(EXAMINATION_INTERVAL_SECONDS):
                return
