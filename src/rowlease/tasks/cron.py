"""Cron: the times of a schedule.

An expression has five fields, with the meaning that Debian's cron gives them, or six, of which the
first is for seconds. Changes to or from summer time skip or repeat an hour. As in Debian's cron, a
schedule for a fixed time in such an hour fires once, and a schedule that fires every hour or more
often follows the local time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from rowlease.errors import ConfigError

#: The placeholder in a schedule's payload that the routine fire_schedule replaces with the time of
#: the firing (ISO 8601, UTC).
SCHEDULED_TIME = "{scheduled_time}"
#: The length of the first period in which `due` searches for the latest firings. The period is
#: doubled until it has enough firings.
FIRST_WINDOW = timedelta(hours=1)
#: The day from which a new expression is checked. An expression that never fires is refused.
SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cron:
    """The times at which a schedule fires.

    Args:
        expression: minute, hour, day of the month, month, weekday; or second, minute and so on.
        time_zone: the IANA name of the expression's time zone.

    Raises:
        ConfigError: the expression or the time zone is not valid, or the expression matches no
            time.
    """

    expression: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            self._zone()
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                f"time_zone is {self.time_zone!r}, which this host does not know; write a name "
                'such as "Europe/Berlin" (install tzdata if this host has no time zones)'
            ) from error
        try:
            if len(self.expression.split()) not in (5, 6):
                raise CronSimError("Wrong number of fields")
            self.following(SOME_DAY)
        except (CronSimError, StopIteration) as error:
            raise ConfigError(
                f"cron is {self.expression!r}: {str(error).lower() or 'no time matches'}; "
                'write minute hour day month weekday, such as "0 3 * * *", or begin with seconds'
            ) from error

    def following(self, after: datetime) -> datetime:
        """The first firing after an instant, in UTC."""
        return next(self._times(after))

    def due(self, first: datetime, until: datetime, most: int) -> tuple[list[datetime], datetime]:
        """The firings that are due, and the next one after them.

        Args:
            first: the first firing that is not enqueued yet.
            until: now.
            most: the maximum number of firings to return. If more are due, the latest are returned.

        Returns:
            The firings from `first` to `until`, in order; and the firing after them.
        """
        if first > until:
            return [], first
        window, longest = FIRST_WINDOW, until - first + timedelta(microseconds=1)
        while True:
            start = until - min(window, longest)
            found, after = self._between(start, until)
            if len(found) >= most or start < first:
                return found[-most:], after
            window *= 2

    def _between(self, start: datetime, until: datetime) -> tuple[list[datetime], datetime]:
        found: list[datetime] = []
        times = self._times(start)
        while (after := next(times)) <= until:
            found.append(after)
        return found, after

    def _times(self, after: datetime) -> Iterator[datetime]:
        for found in CronSim(self.expression, after.astimezone(self._zone())):
            # When clocks go back, an hour is repeated. CronSim may then return earlier times again.
            if (time := found.astimezone(UTC)) > after:
                yield time

    def _zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)


def cron_for(
    function: Callable[..., Any],
    task: str,
    expression: str,
    time_zone: str,
    arguments: Mapping[str, Any],
) -> Cron:
    """The cron expression of a task, checked against its function.

    Args:
        arguments: the arguments of each firing.

    Raises:
        ConfigError: the expression is not valid, or the arguments do not fit the parameters.
    """
    try:
        time = {"scheduled_time": ""} if takes_time(function) else {}
        inspect.signature(function).bind(**{**time, **arguments})
        return Cron(expression, time_zone)
    except TypeError as error:
        raise ConfigError(
            f"task {task} has a cron expression, so it is called with cron_arguments alone: "
            f"{error}; add the argument there, or give the parameter a default"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"task {task}: {error}") from error


def takes_time(function: Callable[..., Any]) -> bool:
    """True if the function has the parameter `scheduled_time`."""
    return "scheduled_time" in inspect.signature(function).parameters
