"""The text of a filter: what it means, and how an error points at its wrong part."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlease import task
from rowlease.errors import InvalidRequest, WrongFilter
from rowlease.filters.filter import Filter, to_json
from rowlease.filters.language import FILTER_KEYS, combine_filters, parse, quote


@task
def resize(image: str) -> None: ...


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("", {}),
        ("queue:images", {"queue": "images"}),
        ("  kind:resize\tqueue:a.b ", {"kind": "resize", "queue": "a.b"}),
        ("status:failed", {"status": ("Failed",)}),
        ("status:Failed,pending", {"status": ("Failed", "Pending")}),
        ("error:Timeout", {"error": "Timeout"}),
        ('error:"no answer"', {"error": "no answer"}),
        ('pattern:"in # s"', {"error_pattern": "in # s"}),
        (r'error:"a \"b\" \\ c"', {"error": r'a "b" \ c'}),
        ('error:"two\nlines"', {"error": "two\nlines"}),
        ("error:a:b=c>d,e", {"error": "a:b=c>d,e"}),
        ("group:g dedup:k", {"group_key": "g", "dedup_key": "k"}),
        ("load:l worker:host:1:ab", {"load_id": "l", "worker": "host:1:ab"}),
        ("id:4711", {"ids": (4711,)}),
        ("id:1,2", {"ids": (1, 2)}),
        ("priority:5", {"min_priority": 5, "max_priority": 5}),
        ("priority>=5 priority<9", {"min_priority": 5, "max_priority": 8}),
        ("priority>5 priority<=9", {"min_priority": 6, "max_priority": 9}),
        ("age>1h", {"min_age": timedelta(hours=1)}),
        ("age>=90s age<2d", {"min_age": timedelta(seconds=90), "max_age": timedelta(days=2)}),
        ("since:2026-11-22T18:00", {"since": datetime(2026, 11, 22, 18, tzinfo=UTC)}),
        (
            "until:2026-11-22T18:00+01:00",
            {"until": datetime(2026, 11, 22, 18, tzinfo=timezone(timedelta(hours=1)))},
        ),
        ("QUEUE:a", {"queue": "a"}),
    ],
)
def test_a_text_means_a_filter(text: str, filters: Filter) -> None:
    assert parse(text) == filters


@pytest.mark.parametrize(
    ("text", "part", "reason"),
    [
        ("queue:images state:failed", "state", "there is no key 'state'; the keys are age, dedup,"),
        ("images", "images", "this is not KEY:VALUE, such as error:Timeout or age>1h"),
        ("error:no answer", "answer", "write a value with blanks in double quotes"),
        ("queue=images", "queue=images", "this is not KEY:VALUE"),
        ("status:done", "done", "status is 'done'; it must be one of Scheduled, Pending"),
        ("status:failed,", "failed,", "status is ''; it must be one of"),
        ("queue:", "queue:", "queue has no value"),
        ('queue:""', 'queue:""', "queue has no value"),
        ("queue>a", "queue>", "write queue:VALUE"),
        ("age:1h", "age:", "write age>=VALUE or age>VALUE or age<=VALUE or age<VALUE"),
        ("age>soon", "soon", "'soon' is not a duration; write 250ms, 30s, 1h or 7d"),
        ("age>90", "90", "'90' has no unit; write 90s, 90m, 90h or 90d"),
        ("since:soon", "soon", "'soon' is not a time; write 2026-11-22T18:00 (UTC)"),
        ("priority>x", "x", "'x' is not a whole number"),
        ("id:1,-2", "1,-2", "'-2' is not a whole number"),
        ("id:9223372036854775808", "9223372036854775808", "is not a whole number"),
        ('error:"no', 'error:"no', "the quote is not closed"),
        ('error:"no answer', 'error:"no', "the quote is not closed"),
        ('error:"no"answer', 'error:"no"answer', "a blank must follow the closing quote"),
        ('error:no"answer', 'error:no"answer', "write a value with a quote in double quotes"),
        ('x:"', 'x:"', "there is no key 'x'"),
        ("queue:a queue:b", "queue:b", "queue is already limited by an earlier term"),
        ("kind:a\0b", "a\0b", "it has a character that no database stores"),
        ("priority:5 priority>6", "priority>6", "priority is already limited"),
    ],
)
def test_an_error_points_at_the_wrong_part(text: str, part: str, reason: str) -> None:
    with pytest.raises(WrongFilter) as raised:
        parse(text)
    error = raised.value
    assert text[error.start : error.end] == part
    assert reason in error.reason
    first, line, pointer = str(error).splitlines()
    assert first == f"the filter is wrong at character {error.start + 1}: {error.reason}"
    assert line == f"  {text}".replace("\0", " ")
    assert "".join(
        c for c, mark in zip(line, pointer, strict=False) if mark == "^"
    ) == part.replace("\0", " ")


def test_an_error_shows_the_part_of_a_long_text_with_control_characters_as_blanks() -> None:
    with pytest.raises(WrongFilter) as raised:
        parse(f'error:"{"x" * 500}\n\x1b[31m" nonsense {"y" * 500}')
    _, line, pointer = str(raised.value).splitlines()
    assert len(line) < 130
    assert "\x1b" not in line
    assert line[pointer.index("^") :].startswith("nonsense yyy")


@given(
    st.sampled_from(["queue", "kind", "error", "dedup", "group", "load"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
)
def test_any_value_can_be_written(key: str, value: str) -> None:
    found = dict(parse(f"age>1s {key}:{quote(value)} priority:5"))
    (name,) = FILTER_KEYS[key][0][":"]
    assert found[name] == value


@given(st.text())
def test_any_text_is_a_filter_or_an_error_that_points_into_it(text: str) -> None:
    try:
        filters = parse(text)
    except WrongFilter as error:
        start, end = error.start, error.end
        assert 0 <= start < end <= len(text)
    else:
        to_json(filters)


def test_a_filter_is_json_for_the_routines() -> None:
    filters: Filter = {
        "queue": "images",
        "status": "failed",
        "kind": resize,
        "error": None,
        "min_age": timedelta(seconds=1.5),
        "since": datetime(2026, 11, 22, 18, tzinfo=timezone(timedelta(hours=1))),
        "ids": (1, 2),
        "min_priority": 5,
    }
    assert json.loads(to_json(filters)) == {
        "queue": "images",
        "status": ["Failed"],
        "kind": "resize",
        "min_age_ms": 1500,
        "since": "2026-11-22T17:00:00Z",
        "ids": [1, 2],
        "min_priority": 5,
    }


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"ids": [1, "2"]}, "ids has '2'; a request's id is a whole number"),
        ({"ids": [True]}, "ids has True"),
        ({"ids": range(10_001)}, "ids has 10,001 ids; 10,000 are allowed"),
        ({"min_priority": "5"}, "min_priority is '5'; it must be a whole number"),
        ({"kind": 5}, "kind is 5; it must be a task or its name"),
        ({"worker": "a\0b"}, "worker has a character that no database stores"),
        ({"error": "\ud800"}, "error has a character that no database stores"),
    ],
    ids=str,
)
def test_wrong_values_are_refused(filters: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        to_json(filters)


def test_a_text_and_typed_values_are_one_filter() -> None:
    assert combine_filters("queue:a", {"kind": "b"}) == {"queue": "a", "kind": "b"}
    assert combine_filters(None, {"kind": "b"}) == {"kind": "b"}
    with pytest.raises(InvalidRequest, match="the text and the argument queue limit the same"):
        combine_filters("queue:a", {"queue": "b"})


@pytest.mark.parametrize("text", ["since:0001-01-01T00:00+14:00", "until:9999-12-31T23:59-10:00"])
def test_a_time_that_is_outside_the_calendar_in_utc_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="in UTC it is outside the calendar"):
        to_json(parse(text))
