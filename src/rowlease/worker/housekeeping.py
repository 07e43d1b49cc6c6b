"""Housekeeping: the thread for heartbeats, schedules and `maintain`."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from rowlease.clock import now
from rowlease.errors import InvalidRequest, RowleaseError, StoreError
from rowlease.events import Events, HousekeepingRefused
from rowlease.store import Consuming
from rowlease.store.revisions import own_version
from rowlease.worker.retry_policy import RetryPolicy, is_caused_by_data
from rowlease.worker.schedules import Schedules
from rowlease.worker.times import HEARTBEAT, HEARTBEAT_ANSWER, HEARTBEAT_SPREAD

#: Seconds between two rounds of `maintain`: while there is work, and while there is none.
MAINTAIN, MAINTAIN_IDLE = 1.0, 2.5
#: Seconds between two rounds at least.
SHORTEST = 0.02


class Housekeeping:
    """Calls `worker_heartbeat` and `maintain` at jittered intervals, and `remove_worker` last.

    Args:
        busy: how many slots run something.
        kinds: those that the worker knows; others leave requests of these to it.
        schedules: fired from here, too, at their times.
    """

    def __init__(
        self,
        store: Consuming,
        worker_id: str,
        queues: Sequence[str],
        events: Events,
        *,
        slots: int,
        busy: Callable[[], int],
        consumer_priority: int,
        kinds: Sequence[str],
        schedules: Schedules | None = None,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = queues
        self._events = events
        self._reported: set[str] = set()
        self._slots = slots
        self._busy = busy
        self._consumer_priority = consumer_priority
        self._kinds = kinds
        self._schedules = schedules
        self._stopped = threading.Event()
        #: When the database last answered.
        self.answered_at = now()

    def run(self) -> None:
        """Go on until stopped; what fails is left alone until the next time.

        Raises:
            ConfigError: the settings of a task with a schedule are wrong.
            AccessDenied, SchemaMismatch: at the start, or for longer than a worker bears it.
        """
        chores = [
            self._send_heartbeat,
            *([self._schedules.step] if self._schedules else []),
            self._maintain,
        ]
        patience = [RetryPolicy() for _ in chores]
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
                    patience[place].answered()
                except (StoreError, InvalidRequest) as error:
                    if is_caused_by_data(error):
                        self._report(str(error))
                    elif not patience[place].tolerates(error):
                        raise
            pause = max(SHORTEST, min(due) - now())
        with suppress(RowleaseError):
            self._store.remove_worker(self._worker_id)

    def stop(self) -> None:
        """Remove the worker from the database and end `run`."""
        self._stopped.set()

    def _report(self, error: str) -> None:
        """Emit a refusal once: nothing that one row holds may end a worker."""
        if error not in self._reported:
            self._reported.add(error)
            self._events.emit(HousekeepingRefused(error))

    def _send_heartbeat(self) -> float:
        self._store.within(timedelta(seconds=HEARTBEAT_ANSWER)).worker_heartbeat(
            self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=own_version(),
            queues=self._queues,
            slots=self._slots,
            busy=self._busy(),
            consumer_priority=self._consumer_priority,
            kinds=self._kinds,
        )
        return HEARTBEAT * random.uniform(1 - HEARTBEAT_SPREAD, 1 + HEARTBEAT_SPREAD)

    def _maintain(self) -> float:
        self._store.maintain()
        return (MAINTAIN if self._busy() else MAINTAIN_IDLE) * random.uniform(0.8, 1.2)
