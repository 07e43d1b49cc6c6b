"""When a schedule fires, above all where clocks are put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowlease.errors import ConfigError
from rowlease.tasks.cron import Cron

BERLIN = "Europe/Berlin"
#: In 2026, clocks there go forward on 29 March at 2:00, and back on 25 October at 3:00.
MINUTE = timedelta(minutes=1)
EXPRESSIONS = ["* * * * *", "*/5 * * * *", "30 2 * * *", "0 3 * * *", "0 */2 * * *",
               "15,45 2 * * *", "*/20 2 * * *", "0 0 1 * *", "0 9 * * MON-FRI",
               "30 1,2,3 * * SUN"]  # fmt: skip
ZONES = ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(cron: Cron, start: str, end: str) -> list[str]:
    """The firings after one and up to another instant, in UTC."""
    found = []
    at = utc(start)
    while (at := cron.following(at)) <= utc(end):
        found.append(f"{at:%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("expression", "fired"),
    [
        # The hour from 2 to 3 is skipped: its firings run at 3 o'clock, which is 1 UTC.
        ("30 2 * * *", ["28 01:30", "29 01:00", "30 00:30"]),
        ("15,45 2 * * *", ["28 01:15", "28 01:45", "29 01:00", "30 00:15", "30 00:45"]),
        ("0 3 * * *", ["28 02:00", "29 01:00", "30 01:00"]),
    ],
)
def test_what_falls_into_the_skipped_hour_fires_once_after_it(
    expression: str, fired: list[str]
) -> None:
    assert between(Cron(expression, BERLIN), "2026-03-28T00:00", "2026-03-30T01:30") == fired


def test_what_falls_into_the_repeated_hour_fires_once() -> None:
    # 2:30 there is 0:30 UTC, and 1:30 UTC once more.
    days = between(Cron("30 2 * * *", BERLIN), "2026-10-24T00:00", "2026-10-26T02:00")
    assert days == ["24 00:30", "25 00:30", "26 01:30"]


@pytest.mark.parametrize(
    "at", ["00:29", "00:30", "00:59", "01:00", "01:10", "01:29", "01:30", "01:59"]
)
def test_asked_within_the_repeated_hour_it_names_no_time_that_has_passed(at: str) -> None:
    after = utc(f"2026-10-25T{at}")
    expected = utc("2026-10-25T00:30" if at == "00:29" else "2026-10-26T01:30")
    assert Cron("30 2 * * *", BERLIN).following(after) == expected


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_a_schedule_of_every_ten_minutes_follows_the_elapsed_time(day: str, hours: int) -> None:
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(BERLIN))
    next_midnight = midnight + timedelta(days=1)  # by the wall clock
    cron = Cron("*/10 * * * *", BERLIN)
    found = [midnight.astimezone(UTC)]
    while (at := cron.following(found[-1])) < next_midnight.astimezone(UTC):
        found.append(at)
    assert len(found) == 6 * hours
    assert {b - a for a, b in pairwise(found)} == {10 * MINUTE}


@settings(max_examples=50)
@given(
    expression=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(ZONES),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    days=st.floats(0, 2),
    most=st.integers(1, 30),
)
def test_what_is_due_is_the_end_of_the_chain_of_firings(
    expression: str, zone: str, start: datetime, days: float, most: int
) -> None:
    cron = Cron(expression, zone)
    until = start + timedelta(days=days)
    chain = [cron.following(start)]
    while chain[-1] <= until:
        chain.append(cron.following(chain[-1]))
    assert chain == sorted(set(chain))
    assert cron.due(chain[0], until, most) == (chain[:-1][-most:], chain[-1])


def test_six_fields_begin_with_seconds() -> None:
    cron = Cron("*/20 * * * * *", BERLIN)
    at = utc("2026-10-25T00:59:30")  # clocks go back half a minute later
    found = [at := cron.following(at) for _ in range(4)]
    assert [f"{one:%H:%M:%S}" for one in found] == ["00:59:40", "01:00:00", "01:00:20", "01:00:40"]
    assert cron.due(utc("2026-01-01T00:00:01"), utc("2026-01-01T00:01:01"), 9)[0] == [
        utc("2026-01-01T00:00:20"), utc("2026-01-01T00:00:40"), utc("2026-01-01T00:01:00"),
    ]  # fmt: skip


def test_many_missed_firings_are_not_all_looked_at() -> None:
    cron = Cron("* * * * *", BERLIN)
    times, after = cron.due(utc("2016-01-01T00:00"), utc("2026-01-01T00:00"), 2)
    assert times == [utc("2025-12-31T23:59"), utc("2026-01-01T00:00")]
    assert after == utc("2026-01-01T00:01")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("61 * * * *", "bad minute"),
        ("* * * *", "wrong number of fields"),
        ("* * * * * * *", "wrong number of fields"),
        ("61 * * * * *", "bad second"),
        ("@daily", "wrong number of fields"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("", "wrong number of fields"),
        ("0 25 * * *", "bad hour"),
        ("a b c d e", "bad minute"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused_with_a_sentence(
    expression: str, message: str
) -> None:
    with pytest.raises(
        ConfigError,
        match=f"cron is {expression!r}: {message}; write minute hour".replace("*", r"\*"),
    ):
        Cron(expression)


@pytest.mark.parametrize("zone", ["", "Europe/Berln", "Europe", "../etc/passwd", "/etc/localtime"])
def test_a_time_zone_that_is_not_known_is_refused_with_a_sentence(zone: str) -> None:
    with pytest.raises(ConfigError, match="which this host does not know; write a name such as"):
        Cron("* * * * *", zone)
