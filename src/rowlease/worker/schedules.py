"""Schedules: whatever a schedule wants to have enqueued now, some worker enqueues.

There is no leader to elect: a due schedule is leased like a request, by whoever comes first, and
fired with the token of that lease. A worker that dies in between is followed by another, and one
that comes late changes nothing.
"""

from __future__ import annotations

from rowlease.cron import SCHEDULED_TIME, Cron, wants_time
from rowlease.errors import ConfigError, InvalidRequest, StoreError
from rowlease.events import Events, ScheduleFired, ScheduleNotFired
from rowlease.model import DueSchedule, Outcome
from rowlease.store import Scheduling
from rowlease.tasks import DEFAULT_QUEUE, Registry

#: Seconds until to look again, at most: so late may the first firing be of a schedule that somebody
#: has made, changed or resumed meanwhile.
CHECK_INTERVAL = 15.0


class Schedules:
    """Registers the schedules of a worker's tasks, and fires those that are due.

    It fires what others have made, too, if it knows the task.
    """

    def __init__(self, store: Scheduling, worker_id: str, tasks: Registry, events: Events) -> None:
        self._store = store
        self._worker_id = worker_id
        self._kinds = list(tasks)
        self._unregistered = [each for each in tasks.values() if each.timetable]
        self._events = events
        self._reported: set[tuple[str, str]] = set()

    def step(self) -> float:
        """Do what is due.

        Returns:
            Seconds until to call again.

        Raises:
            StoreError: the store refused, or is away.
            ConfigError: a task's queue does not exist.
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
                    payload=f'{{"scheduled_time":"{SCHEDULED_TIME}"}}'
                    if wants_time(one.function)
                    else "{}",
                    priority=one.priority,
                    catch_up=one.catch_up,
                )
            except InvalidRequest as error:
                raise ConfigError(f"task {one.name} has cron: {error}") from error
            self._unregistered.pop()
        while True:
            claim = self._store.claim_schedules(self._worker_id, kinds=self._kinds)
            for due in claim.due:
                self._fire(due)
            if not claim.due:
                return (
                    CHECK_INTERVAL
                    if claim.wait is None
                    else min(CHECK_INTERVAL, claim.wait.total_seconds())
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
            # Tried again, by whoever leases it next; reported once. What was written
            # into the row by hand may be beyond the calendar: then it is no error of ours.
            reason = str(error) or type(error).__name__
            if (due.schedule_name, reason) not in self._reported:
                self._reported.add((due.schedule_name, reason))
                self._events.emit(ScheduleNotFired(due.schedule_name, reason))
            return
        for time, answer in zip(times, answers, strict=False):
            if answer.outcome is Outcome.OK:
                self._events.emit(ScheduleFired(due.schedule_name, time, answer.request_id))
