"""Housekeeping: the thread that says the worker is alive, and tidies the database up."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from rowlease.errors import RowleaseError, StoreError
from rowlease.store import Store
from rowlease.worker.child import now
from rowlease.worker.schedules import Schedules

#: Seconds between two heartbeats.
HEARTBEAT = 5.0
#: Seconds between two rounds of `maintain`: while there is work, and while there is none.
MAINTAIN, MAINTAIN_IDLE = 1.0, 2.5
#: Seconds between two rounds at least.
SHORTEST = 0.02


class Housekeeping:
    """Calls `worker_heartbeat` and `maintain` from time to time, jittered, and `worker_bye` last.

    Args:
        busy: how many slots run something.
        schedules: fired from here, too, at their times.
    """

    def __init__(
        self,
        store: Store,
        worker_id: str,
        queues: Sequence[str],
        *,
        slots: int,
        busy: Callable[[], int],
        consumer_priority: int,
        schedules: Schedules | None = None,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = queues
        self._slots = slots
        self._busy = busy
        self._consumer_priority = consumer_priority
        self._schedules = schedules
        self._stopped = threading.Event()
        #: When the database last answered.
        self.answered_at = now()

    def run(self) -> None:
        """Go on until stopped; a database that is away is left alone until the next time.

        Raises:
            RowleaseError: the store refused, and not just for now.
        """
        chores = [self._beat, *([self._schedules.step] if self._schedules else []), self._tidy]
        due = [0.0] * len(chores)
        pause = 0.0
        while not self._stopped.wait(pause):
            for place, chore in enumerate(chores):
                if now() < due[place]:
                    continue
                due[place] = now() + MAINTAIN * random.uniform(0.8, 1.2)  # should it fail
                try:
                    due[place] = now() + chore()
                    self.answered_at = now()
                except StoreError as error:
                    if not error.transient:
                        raise
            pause = max(SHORTEST, min(due) - now())
        with suppress(RowleaseError):
            self._store.worker_bye(self._worker_id)

    def stop(self) -> None:
        """Say bye and end `run`."""
        self._stopped.set()

    def _beat(self) -> float:
        self._store.worker_heartbeat(
            self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=own_version(),
            queues=self._queues,
            slots=self._slots,
            busy=self._busy(),
            consumer_priority=self._consumer_priority,
        )
        return HEARTBEAT * random.uniform(0.9, 1.1)

    def _tidy(self) -> float:
        self._store.maintain()
        return (MAINTAIN if self._busy() else MAINTAIN_IDLE) * random.uniform(0.8, 1.2)


def own_version() -> str:
    """The version of rowlease that runs here."""
    try:
        return version("rowlease")
    except PackageNotFoundError:
        return "unknown"
