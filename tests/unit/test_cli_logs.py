"""Lines of JSON for a collector of logs, and a stderr that is not read."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rowlease.cli.logs import JsonLines, WriteBehind
from rowlease.event_log import log
from rowlease.events import Claimed, Failed, WorkerStarted, WorkerStopping
from rowlease.model import LeasedRequest
from tests.acceptance.test_stderr import fill

AT = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = LeasedRequest(
    *(7, "default", "add", 0, AT, AT, AT, AT + timedelta(seconds=30), 1, 2, 5, 0, None, None),
    payload='{"password": "hunter2"}',
)


class Lines(logging.Handler):
    """Keeps the written text."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    @property
    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts[-1])
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger("rowlease"), Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_an_event_is_its_name_and_its_fields(lines: Lines) -> None:
    log(Failed(REQUEST, 0.25, 'ValueError: "no"\nTraceback ...', False))
    answered = lines.last
    assert datetime.fromisoformat(answered.pop("time")).tzinfo == UTC
    assert isinstance(answered.pop("process"), int)
    assert answered == {
        "level": "warning",
        "event": "failed",
        "request_id": 7,
        "queue_name": "default",
        "kind": "add",
        "attempt": 2,
        "seconds": 0.25,
        "error": 'ValueError: "no"',
        "dead": False,
    }


def test_durations_are_seconds_and_lists_are_lists(lines: Lines) -> None:
    log(WorkerStopping("w", timedelta(seconds=90)))
    assert lines.last["grace"] == 90.0
    log(WorkerStarted("w", ("a", "b"), 4))
    assert lines.last["queues"] == ["a", "b"]


def test_no_payload_is_ever_written(lines: Lines) -> None:
    log(Claimed((REQUEST,)))
    log(Failed(REQUEST, 0.25, "no", True))
    assert "hunter2" not in "".join(lines.texts)


def test_a_line_is_one_line_whatever_is_in_it(lines: Lines) -> None:
    logger = logging.getLogger("rowlease")
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        logger.exception("it went\nwrong")
    assert "\n" not in lines.texts[-1]
    assert lines.last["message"] == "it went\nwrong"
    assert "ValueError: one\ntwo" in lines.last["exception"]
    assert "event" not in lines.last


def test_another_librarys_line_names_it(lines: Lines) -> None:
    record = logging.LogRecord("urllib3", 30, "x.py", 1, "slow %s", ("host",), None)
    assert json.loads(JsonLines().format(record)) | {"time": 0, "process": 0} == {
        "time": 0,
        "process": 0,
        "level": "warning",
        "logger": "urllib3",
        "message": "slow host",
    }


def test_what_does_not_fit_is_dropped_and_counted(lines: Lines) -> None:
    reader, writer = os.pipe()
    filled = fill(writer)
    stream = WriteBehind(writer, most=4)
    handler = logging.StreamHandler(stream)
    logging.getLogger("rowlease").addHandler(handler)
    try:
        for number in range(10):
            stream.write(f"{number}\n")
        with os.fdopen(reader, "rb") as log:
            log.read(filled)
            answered = [log.readline() for _ in range(5)]
            assert stream.drain(60)
            stream.write("again\n")
            answered.append(log.readline())
    finally:
        logging.getLogger("rowlease").removeHandler(handler)
    assert b"".join(answered) == b"0\n1\n2\n3\nlog lines dropped count=6\nagain\n"
    assert lines.last["event"] == "log_lines_dropped"
    stream.write("nobody reads this\n")
    assert stream.drain(60)
    os.close(writer)


def test_a_reader_that_comes_back_hears_how_much_it_missed(lines: Lines, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    first = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "log", os.O_WRONLY)
    stream = WriteBehind(writer)
    os.close(first)
    for _ in range(3):
        stream.write("lost\n")
    assert stream.drain(60)
    second = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    stream.write("heard\n")
    assert stream.drain(60)
    assert os.read(second, 100) == b"heard\n"
    assert lines.last["count"] == 3
    os.close(second)
    os.close(writer)


def test_a_non_blocking_stderr_loses_nothing(lines: Lines) -> None:
    reader, writer = os.pipe()
    filled = fill(writer)
    os.set_blocking(writer, False)
    stream = WriteBehind(writer)
    stream.write("all of it\n")
    with os.fdopen(reader, "rb") as log:
        log.read(filled)
        assert log.readline() == b"all of it\n"
    os.close(writer)
