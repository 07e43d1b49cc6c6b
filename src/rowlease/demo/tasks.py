"""The demo's tasks. `flight` computes the time that a flight flew in the dark, `row` takes any row.

The tasks use only the standard library. `rowlease.demo.flights.expected` computes the results of
`flight` in Spark, too, and the demo compares the two results of each row.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from rowlease.tasks.task import task

#: The mean radius of the earth in statute miles.
EARTH_MILES = 3958.7613
#: The sine of the height of the sun's centre at sunrise and sunset. Because of refraction and the
#: sun's radius, this height is -0.833 degrees.
HORIZON = math.sin(math.radians(-0.833))
#: The reference time of the formulas for the sun: noon UTC on 1 January 2000, as a Unix time.
J2000 = 946_728_000
#: A flight is late if its delay is longer than this many minutes, as in airlines' statistics.
LATE_MINUTES = 15
#: The tilt of the earth's axis, in radians.
TILT = math.radians(23.439)
#: The angle in degrees by which the earth rotates in a day, relative to the stars.
TURN_PER_DAY = 360.98564736629
#: The angle in radians by which the earth rotates in a second, relative to the stars.
TURN_PER_SECOND = math.radians(TURN_PER_DAY) / 86400


@task("row")
def row(row_id: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a table as the worker received it, so that Spark can compare each value."""
    return {"row_id": row_id, "row": row}


@task("flight")
def flight(
    row_id: int,
    carrier: str,
    flight: int,
    origin: str,
    dest: str,
    time_hour: str,
    minute: int,
    dep_time: int | None,
    sched_dep_time: int,
    dep_delay: int | None,
    arr_delay: int | None,
    air_time: int | None,
    distance: int,
    origin_lat: float | None,
    origin_lon: float | None,
    dest_lat: float | None,
    dest_lon: float | None,
) -> dict[str, Any]:
    """Compute the result for one flight.

    Args:
        time_hour, minute: the hour (ISO 8601 in UTC) and the minute of the scheduled departure.
        dep_time, sched_dep_time: the actual and the scheduled departure in local time, as HHMM.
            `dep_time` is null if the flight was cancelled.
        dep_delay, arr_delay: delays in minutes, negative if early.
        air_time: minutes in the air; null if the flight was cancelled or diverted.
        distance: the distance in miles, from the data set.

    Returns:
        The `row_id` and `carrier`, `status` (flown, diverted or cancelled), `late`, `clock_agrees`
        (true if the two local times differ by `dep_delay`), `gained` (minutes made up in the air),
        `miles` (the great-circle distance), `detour` (`distance` minus `miles`) and `dark_seconds`
        (air time with the sun below the horizon). There are no fractions, so that results can be
        compared exactly.
    """
    status = "cancelled" if dep_time is None else "diverted" if arr_delay is None else "flown"
    start = end = None
    miles = detour = dark = None
    if None not in (origin_lat, origin_lon, dest_lat, dest_lon):
        start, end = unit_vector(origin_lat, origin_lon), unit_vector(dest_lat, dest_lon)  # type: ignore[arg-type]
        angle = 2 * math.asin(min(1.0, math.dist(start, end) / 2))
        miles = math.floor(angle * EARTH_MILES + 0.5)
        detour = distance - miles
        if air_time is not None and dep_delay is not None:
            left = datetime.fromisoformat(time_hour).timestamp() + 60 * (minute + dep_delay)
            dark = dark_seconds(start, end, angle, left, air_time)
    return {
        "row_id": row_id,
        "carrier": carrier,
        "status": status,
        "late": arr_delay is not None and arr_delay > LATE_MINUTES,
        "clock_agrees": dep_time is None
        or (clock_minutes(dep_time) - clock_minutes(sched_dep_time) - (dep_delay or 0)) % 1440 == 0,
        "gained": None if arr_delay is None or dep_delay is None else dep_delay - arr_delay,
        "miles": miles,
        "detour": detour,
        "dark_seconds": dark,
    }


def clock_minutes(hhmm: int) -> int:
    """The minutes since midnight of a time such as 1745."""
    return hhmm // 100 * 60 + hhmm % 100


def unit_vector(latitude: float, longitude: float) -> tuple[float, float, float]:
    """The vector of length 1 from the earth's centre towards a place, given in degrees."""
    lat, lon = math.radians(latitude), math.radians(longitude)
    return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)


def dark_seconds(
    start: tuple[float, float, float],
    end: tuple[float, float, float],
    angle: float,
    left: float,
    air_time: int,
) -> int:
    """The seconds with the sun below the horizon, on a great-circle flight at constant speed.

    The sun's height is computed once a minute, because `air_time` is in minutes.

    Args:
        start, end: the unit vectors of both places.
        angle: the angle between these vectors, in radians.
        left: the time of departure, in seconds since 1970.
        air_time: the time in the air, in minutes.

    Source: the Astronomical Almanac's formulas of low precision (0.01 degrees) for the sun.
    """
    sin, cos, rad = math.sin, math.cos, math.radians
    duration = 60 * air_time
    # The sun's position among the stars in the middle of the flight. It moves only a degree a day.
    days = (left + duration / 2 - J2000) / 86400
    anomaly = rad(357.528 + 0.9856003 * days)
    sun = rad(280.460 + 0.9856474 * days + 1.915 * sin(anomaly) + 0.020 * sin(2 * anomaly))
    sun_x, sun_y, sun_z = cos(sun), cos(TILT) * sin(sun), sin(TILT) * sin(sun)
    # The direction of the sun, seen from the turning earth, at departure.
    turned = rad(280.46061837 + TURN_PER_DAY * (left - J2000) / 86400)
    east_x = sun_x * cos(turned) + sun_y * sin(turned)
    east_y = sun_y * cos(turned) - sun_x * sin(turned)
    (ax, ay, az), (bx, by, bz) = start, end
    a_cos, a_sin, a_rest = ax * east_x + ay * east_y, ax * east_y - ay * east_x, az * sun_z
    b_cos, b_sin, b_rest = bx * east_x + by * east_y, bx * east_y - by * east_x, bz * sun_z
    horizon = HORIZON * sin(angle)
    dark = 0
    for seconds in range(0, duration, 60):
        turn = TURN_PER_SECOND * seconds
        turn_cos, turn_sin = cos(turn), sin(turn)
        flown = angle * (seconds / duration)
        from_start = a_cos * turn_cos + a_sin * turn_sin + a_rest
        from_end = b_cos * turn_cos + b_sin * turn_sin + b_rest
        height = sin(angle - flown) * from_start + sin(flown) * from_end
        if height < horizon:
            dark += 60
    return dark
