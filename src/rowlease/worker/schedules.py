"""Registers the schedules of a worker's tasks, and fires schedules that are due.

No leader is elected. The first worker that claims a due schedule leases it like a request, and
fires the schedule with the token of that lease. If this worker dies, the lease runs out and another
worker claims the schedule. A worker that fires too late changes nothing, because its token is old.
"""

from __future__ import annotations

from rowlease.errors import ConfigError, InvalidRequest, StoreError
from rowlease.events import Events, ScheduleFired, ScheduleNotFired
from rowlease.model import DueSchedule, Outcome
from rowlease.store import Store
from rowlease.tasks.cron import Cron
from rowlease.tasks.headers import encode_headers
from rowlease.tasks.requests import DEFAULT_QUEUE, expiry
from rowlease.tasks.task import Registry

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
