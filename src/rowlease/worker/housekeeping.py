"""Sends heartbeats and fires schedules in one thread, and calls `maintain` in another.

No leader is elected for schedules. The first worker that claims a due schedule leases it like a
request, and fires it with the token of that lease. If this worker dies, the lease runs out and
another worker claims the schedule. A worker that fires too late changes nothing, because its token
is old.
"""

from __future__ import annotations

import math
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

from rowlease.clock import now
from rowlease.errors import ConfigError, InvalidRequest, RowleaseError, StoreError
from rowlease.events import (
    Events,
    HousekeepingRefused,
    KindShared,
    ScheduleFired,
    ScheduleNotFired,
)
from rowlease.model import HEARTBEAT, DueSchedule, Outcome
from rowlease.store import Store
from rowlease.store.revisions import own_version
from rowlease.tasks.cron import Cron
from rowlease.tasks.headers import encode_headers
from rowlease.tasks.requests import DEFAULT_QUEUE, expiry
from rowlease.tasks.task import Registry
from rowlease.worker.calls import CallRetryPolicy, is_caused_by_data
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
        kinds: the kinds that the worker knows, with their tasks. Each heartbeat lists them, so that
            no request of these kinds becomes a dead letter because another worker does not know its
            kind, and the first one looks for workers with other tasks of these kinds.
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
        kinds: Mapping[str, str],
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
        self._is_registered = False
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
        if not self._is_registered:
            self._is_registered = True
            self._report_shared_kinds()
        return HEARTBEAT * random.uniform(1 - HEARTBEAT_SPREAD, 1 + HEARTBEAT_SPREAD)

    def _report_shared_kinds(self) -> None:
        for queue, kind, task, worker_id in self._store.list_shared_kinds():
            own = self._kinds.get(kind, task)
            if queue in self._queues and task != own:
                self._events.emit(KindShared(queue, kind, own, task, worker_id))

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


#: The longest pause between two checks for due schedules, in seconds. If a schedule is created,
#: changed or resumed during the pause, its first firing may be this late.
SCHEDULE_CHECK_SECONDS = 15.0


class Schedules:
    """Registers the schedules of a worker's tasks; fires every schedule whose task it knows."""

    def __init__(self, store: Store, worker_id: str, tasks: Registry, events: Events) -> None:
        self._store = store
        self._worker_id = worker_id
        self._kinds = list(tasks)
        self._unregistered = [each for each in tasks.values() if each.timetable]
        self._events = events
        self._reported: set[tuple[str, str]] = set()

    def step(self) -> float:
        """Register schedules that are not registered yet, and fire those that are due.

        Returns:
            Seconds until the next call.

        Raises:
            StoreError: the database refused a call, or is unavailable.
            ConfigError: the database refused a task's schedule, for example because its queue does
                not exist.
        """
        while self._unregistered:
            one = self._unregistered[-1]
            assert one.timetable
            try:
                self._store.put_schedule(
                    one.name,
                    one.timetable.expression,
                    one.name,
                    queue=one.queue or DEFAULT_QUEUE,
                    time_zone=one.timetable.time_zone,
                    payload=one.parameters.schedule_payload(one.cron_arguments or {}),
                    headers=encode_headers(expiry(one.expires)),
                    priority=one.priority,
                    catch_up=one.catch_up,
                    actor=self._worker_id,
                )
            except InvalidRequest as error:
                raise ConfigError(
                    f"the schedule of task {one.name} is not valid: {error}"
                ) from error
            self._unregistered.pop()
        while True:
            claim = self._store.claim_schedules(self._worker_id, kinds=self._kinds)
            for due in claim.due:
                self._fire(due)
            if not claim.due:
                return (
                    SCHEDULE_CHECK_SECONDS
                    if claim.wait is None
                    else min(SCHEDULE_CHECK_SECONDS, claim.wait.total_seconds())
                )

    def _fire(self, due: DueSchedule) -> None:
        try:
            cron = Cron(due.cron, due.time_zone)
            first = due.next_time or cron.following(due.changed_time)
            times, following = cron.due(first, due.claimed_time, due.catch_up)
            answers = self._store.fire_schedule(due.schedule_name, due.lock_token, times, following)
        except Exception as error:
            if isinstance(error, StoreError) and error.transient:
                raise
            # The next worker that claims the schedule tries again. Any exception is possible,
            # because values written into the row by hand may be out of range.
            reason = str(error) or type(error).__name__
            if (due.schedule_name, reason) not in self._reported:
                self._reported.add((due.schedule_name, reason))
                self._events.emit(ScheduleNotFired(due.schedule_name, reason))
            return
        for time, answer in zip(times, answers, strict=False):
            if answer.outcome is Outcome.OK:
                self._events.emit(ScheduleFired(due.schedule_name, time, answer.request_id))
