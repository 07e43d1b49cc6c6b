"""The calls of sql/*/schedule. Workers plan and fire schedules, operators make and pause them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rowlease.model import DueSchedule, Fired, Outcome, Schedule, ScheduleClaim
from rowlease.store.calls import OUTCOME_COLUMNS, Calls, to_milliseconds
from rowlease.tasks.cron import Cron


class ScheduleCalls(Calls):
    """Creates, claims and fires schedules; see `rowlease.store.Store`."""

    def put_schedule(
        self,
        name: str,
        cron: str,
        kind: str,
        *,
        queue: str = "default",
        time_zone: str = "UTC",
        payload: str = "{}",
        priority: int = 0,
        catch_up: int = 1,
        headers: str | None = None,
        actor: str | None = None,
    ) -> tuple[Outcome, datetime]:
        """Create a schedule, or change the schedule with this name.

        Args:
            name: the name of the schedule, 1 to 200 characters.
            cron: the cron expression: minute, hour, day, month, weekday.
            kind: the task of each firing.
            time_zone: the time zone of the cron expression.
            payload: the payload as JSON text. In each firing, `{scheduled_time}` is replaced by the
                time of the firing.
            catch_up: the maximum number of missed firings to enqueue late (1 to 1000). If more were
                missed, only the latest are enqueued.
            headers: the headers of each firing, as JSON text: an object of strings.
            actor: the operator's name, for the audit.

        Returns:
            `ok`, or `repeat` if nothing changed. The second value is the time from which firings
            are counted if none is planned yet.

        Raises:
            ConfigError: the expression or the time zone is not valid.
            InvalidRequest: the queue does not exist, or another argument is out of range.
        """
        Cron(cron, time_zone)
        ((outcome, changed),) = self._rows(
            ("outcome", "changed_time"),
            "put_schedule",
            p_schedule_name=name,
            p_cron=cron,
            p_kind=kind,
            p_queue_name=queue,
            p_time_zone=time_zone,
            p_payload=payload,
            p_priority=priority,
            p_catch_up=catch_up,
            p_headers=headers,
            p_actor=actor,
        )
        return Outcome(outcome), changed

    def list_schedules(self) -> list[Schedule]:
        """Every schedule, sorted by name."""
        return self._values(Schedule, "list_schedules")

    def claim_schedules(
        self,
        worker_id: str,
        *,
        kinds: Sequence[str] | None = None,
        lease: timedelta = timedelta(seconds=10),
        limit: int = 100,
    ) -> ScheduleClaim:
        """Lease the schedules that are due or not planned yet.

        Args:
            kinds: the tasks whose schedules to lease; None means all.
        """
        rows = self._rows(
            (*DueSchedule._fields, "wait_ms"),
            "claim_schedules",
            p_worker_id=worker_id,
            p_lease_ms=to_milliseconds(lease),
            p_limit=limit,
            p_kinds=None if kinds is None else list(kinds),
        )
        wait_ms = rows.pop()[-1]
        return ScheduleClaim(
            [DueSchedule._make(row[:-1]) for row in rows],
            None if wait_ms is None else timedelta(milliseconds=wait_ms),
        )

    def fire_schedule(
        self,
        name: str,
        lock_token: int | None = None,
        due_times: Sequence[datetime] | None = None,
        next_time: datetime | None = None,
        *,
        actor: str | None = None,
    ) -> list[Fired]:
        """Enqueue the firings of a leased schedule and plan the next one, in one transaction.

        Without a token, this call fires the schedule once, now. The planned firing does not change.

        Args:
            actor: the operator's name, for the audit. Only firings without a token are in it.

        Returns:
            `ok` or `duplicate` for each firing, or a single `repeat`, `lease_lost` or `not_found`.
        """
        rows = self._rows(
            OUTCOME_COLUMNS,
            "fire_schedule",
            p_schedule_name=name,
            p_lock_token=lock_token,
            p_due_times=None if due_times is None else list(due_times),
            p_next_time=next_time,
            p_actor=actor,
        )
        return [Fired(request_id, Outcome(outcome)) for request_id, outcome in rows]

    def pause_schedule(self, name: str, *, actor: str | None = None) -> Outcome:
        """Stop a schedule from firing. Return `ok`, `repeat` or `not_found`.

        Args:
            actor: the operator's name, for the audit.
        """
        return self._outcome("pause_schedule", name, actor)

    def resume_schedule(self, name: str, *, actor: str | None = None) -> Outcome:
        """Have a schedule fire again from now on. Missed firings are not enqueued.

        Args:
            actor: the operator's name, for the audit.
        """
        return self._outcome("resume_schedule", name, actor)

    def remove_schedule(self, name: str, *, actor: str | None = None) -> Outcome:
        """Delete a schedule. A worker whose tasks have the schedule creates it again.

        Args:
            actor: the operator's name, for the audit.
        """
        return self._outcome("remove_schedule", name, actor)

    def _outcome(self, routine: str, name: str, actor: str | None) -> Outcome:
        ((outcome,),) = self._rows(("outcome",), routine, p_schedule_name=name, p_actor=actor)
        return Outcome(outcome)
