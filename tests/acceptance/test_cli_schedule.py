"""`rowlease schedule`: as an operator uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Run, in_test

Sql = Callable[..., list[tuple[Any, ...]]]
IF_KNOWN = "if a worker with the task tidy runs"
A_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
def schedule(dsn: str, tmp_path: Path) -> Run:
    return partial(in_test(tmp_path), "schedule", ROWLEASE_DSN=dsn)


def printed(schedule: Run, *arguments: str) -> str:
    done = schedule(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout).strip()


def test_a_schedule_s_life(schedule: Run, sql: Sql) -> None:
    assert printed(schedule, "list").startswith(
        "there is no schedule; see `rowlease schedule add --help`"
    )
    nightly = ("add", "nightly", "30 3 * * *", "tidy", "--time-zone", "Europe/Berlin")
    assert printed(schedule, *nightly, "--dry-run") == "would create the schedule nightly"
    assert sql("select count(*) from rowlease.schedule") == [(0,)]
    made = printed(schedule, *nightly)
    assert re.fullmatch(rf"schedule nightly: created; it first fires at {A_TIME}, {IF_KNOWN}", made)
    assert printed(schedule, *nightly) == "schedule nightly: unchanged"
    assert printed(schedule, *nightly, "--priority", "3") == "schedule nightly: changed"
    line = printed(schedule, "list")
    assert line.startswith("nightly: 30 3 * * * (Europe/Berlin), tidy in default, next at ")
    assert re.findall(A_TIME, made)[0] in line
    assert line.endswith("last fired for -")

    assert printed(schedule, "pause", "nightly") == "schedule nightly: paused"
    assert printed(schedule, "pause", "nightly") == "schedule nightly: paused already"
    assert ", paused; " in printed(schedule, "list")
    assert printed(schedule, "resume", "nightly") == "schedule nightly: resumed"

    would = "the schedule nightly: 30 3 * * * (Europe/Berlin), tidy"
    assert printed(schedule, "fire", "nightly", "--dry-run") == f"would fire {would}"
    assert printed(schedule, "fire", "nightly") == "schedule nightly: fired, request 1"
    assert sql("select kind, priority from rowlease.queue") == [("tidy", 3)]
    assert re.search(rf"last fired for {A_TIME}$", printed(schedule, "list"))

    assert printed(schedule, "remove", "nightly", "--dry-run") == f"would remove {would}"
    assert printed(schedule, "remove", "nightly") == "schedule nightly: removed"
    assert sql("select count(*) from rowlease.schedule") == [(0,)]


def test_what_programs_read(schedule: Run) -> None:
    made = json.loads(printed(schedule, "add", "a", "* * * * *", "tidy", "--json"))
    assert (made["schedule_name"], made["outcome"]) == ("a", "ok")
    (row,) = json.loads(printed(schedule, "list", "--json"))
    assert (row["cron"], row["paused"], row["next_time"]) == ("* * * * *", False, None)
    assert json.loads(printed(schedule, "pause", "a", "--json"))["outcome"] == "ok"
    assert json.loads(printed(schedule, "fire", "a", "--json")) == {
        "request_id": 1,
        "outcome": "ok",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("add", "a", "61 * * * *", "x"), 2, "cron is '61 * * * *': bad minute; write minute hour"),
        (("add", "a", "@daily", "x"), 2, "cron is '@daily': wrong number of fields"),
        (
            ("add", "a", "* * * * *", "x", "--time-zone", "Berlin"),
            2,
            "time_zone is 'Berlin', which",
        ),
        (
            ("add", "a", "* * * * *", "x", "--payload", "{"),
            2,
            "a payload, result or header is not JSON",
        ),
        (("add", "a", "* * * * *", "x", "--queue", "q"), 2, 'queue "q" does not exist'),
        (("add", "a", "* * * * *", "x", "--catch-up", "0"), 2, "0 is not in the range"),
        (("pause", "a"), 2, "there is no schedule 'a'; `rowlease schedule list` lists"),
        (("resume", "a"), 2, "there is no schedule 'a'"),
        (("remove", "a"), 2, "there is no schedule 'a'"),
        (("remove", "a", "--dry-run"), 2, "there is no schedule 'a'"),
        (("fire", "a"), 2, "there is no schedule 'a'"),
    ],
)
def test_a_refusal_is_one_sentence(
    schedule: Run, sql: Sql, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = schedule(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sql("select count(*) from rowlease.schedule") == [(0,)]
