"""Schedules, and the claim of those that are due."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from rowlease.model.outcomes import Outcome


class DueSchedule(NamedTuple):
    """A leased schedule, in the column order of the routine `claim_schedules`.

    Attributes:
        next_time: the time of the next firing; None if it has not been computed yet. If it
            is None, the schedule next fires at the first matching time after `changed_time`.
        changed_time: the time at which the schedule was created, changed or resumed.
        claimed_time: the time of the claim, by the database's clock. Firings up to then are due.
    """

    schedule_name: str
    cron: str
    time_zone: str
    catch_up: int
    next_time: datetime | None
    changed_time: datetime
    lock_token: int
    claimed_time: datetime


class Fired(NamedTuple):
    """The answer for one firing of a schedule: `ok` or `duplicate`; or another outcome, no id."""

    request_id: int | None
    outcome: Outcome


class ScheduleClaim(NamedTuple):
    """The result of one claim of schedules.

    Attributes:
        wait: the time until the next schedule may be due; None if there is no schedule. A schedule
            that is created, changed or resumed after the claim may be due earlier.
    """

    due: list[DueSchedule]
    wait: timedelta | None


class Schedule(NamedTuple):
    """A schedule, in the column order of the routine `list_schedules`."""

    schedule_name: str
    cron: str
    time_zone: str
    queue_name: str
    kind: str
    payload: str
    priority: int
    catch_up: int
    paused: bool
    next_time: datetime | None
    last_time: datetime | None
    last_request_id: int | None
    changed_time: datetime
    headers: str | None
