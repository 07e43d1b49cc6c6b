"""Sends heartbeats and fires schedules in one thread, and calls `maintain` in another."""

from __future__ import annotations

import math
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
from rowlease.model import HEARTBEAT
from rowlease.store import Store
from rowlease.store.revisions import own_version
from rowlease.worker.call_retry_policy import CallRetryPolicy, is_caused_by_data
from rowlease.worker.schedules import Schedules
from rowlease.worker.timings import HEARTBEAT_ANSWER, HEARTBEAT_SPREAD

#: Seconds between two calls of `maintain` while tasks run.
MAINTAIN = 1.0
#: Seconds between two calls of `maintain` while no task runs. Claims of idle workers find what is
#: due and leases that have run out, so this decides when batches end and old rows go.
MAINTAIN_IDLE = 3.5
#: The shortest pause between two calls, in seconds.
SHORTEST_PAUSE = 0.02


class Housekeeping:
    """Calls `worker_heartbeat` and `maintain`, and `remove_worker` at the end.

    `run` and `run_heartbeats` have a thread each, so that a long call of `maintain` delays neither
    heartbeats nor schedules. A random part of each interval keeps workers from calling together.

    Args:
        busy: a function that returns the number of slots that run tasks.
        kinds: the kinds that the worker knows. Each heartbeat lists them, so that no request of
            these kinds becomes a dead letter because another worker does not know its kind.
        schedules: the schedules to fire, if any.
    """

    def __init__(
        self,
        store: Store,
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
        self._is_maintaining = False
        self._maintained_at = -math.inf
        #: When a call of either thread was last answered.
        self.answered_at = now()

    def run(self) -> None:
        """Call `maintain` until stopped. A call that fails is repeated about a second later.

        Raises:
            AccessDenied, SchemaMismatch: the database refused the first call, or has refused calls
                for a minute.
        """
        self._repeat(self._maintain)

    def run_heartbeats(self) -> None:
        """Send heartbeats and fire schedules until stopped; then remove the worker.

        Batches whose last request this worker has finished are finished, because it may have been
        the last worker.

        Raises:
            ConfigError: the settings of a task with a schedule are wrong.
            AccessDenied, SchemaMismatch: as `run`.
        """
        schedules = [self._schedules.step] if self._schedules else []
        self._repeat(self._send_heartbeat, *schedules)
        with suppress(RowleaseError):
            self._store.finish_batches()
        with suppress(RowleaseError):
            self._store.remove_worker(self._worker_id)

    def _repeat(self, *calls: Callable[[], float]) -> None:
        """Make the calls until stopped. Each returns the seconds until its next call."""
        policies = [CallRetryPolicy() for _ in calls]
        due = [0.0] * len(calls)
        pause = 0.0
        while not self._stopped.wait(pause):
            for number, call in enumerate(calls):
                if now() < due[number]:
                    continue
                due[number] = now() + MAINTAIN * random.uniform(0.8, 1.2)  # if the call fails
                try:
                    due[number] = now() + call()
                    self.answered_at = now()
                    policies[number].answered()
                except (StoreError, InvalidRequest) as error:
                    if is_caused_by_data(error):
                        self._report(str(error))
                    elif not policies[number].tolerates(error):
                        raise
            pause = max(SHORTEST_PAUSE, min(due) - now())

    def stop(self) -> None:
        """Ask both threads to end."""
        self._stopped.set()

    def has_rested_since(self, at: float) -> bool:
        """Whether no `maintain` was under way after this time. Safe from any thread.

        A claim does not see requests that an unfinished `maintain` makes claimable.
        """
        return not self._is_maintaining and self._maintained_at < at

    def _report(self, error: str) -> None:
        """Emit the error of a refused call, unless it has been emitted before.

        The worker goes on, because a single row of a table may be the cause.
        """
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
        self._is_maintaining = True
        try:
            for step in self._store.maintain():
                if step.error:
                    self._report(f'the step "{step.what}" of maintain failed: {step.error}')
        finally:
            # In this order, because `has_rested_since` reads them in the opposite order.
            self._maintained_at = now()
            self._is_maintaining = False
        return (MAINTAIN if self._busy() else MAINTAIN_IDLE) * random.uniform(0.8, 1.2)
