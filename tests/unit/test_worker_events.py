from __future__ import annotations

import logging
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from rowlease.event_log import LEVELS, log, log_to
from rowlease.events import (
    Claimed,
    Event,
    Events,
    Failed,
    Finished,
    Renewed,
    StoreRecovered,
    WorkerStarted,
)
from rowlease.model import LeasedRequest

AT = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = LeasedRequest(
    *(7, "default", "add", 0, AT, AT, AT, AT + timedelta(seconds=30), 1, 2, 5, 0, None, None),
    payload='{"password": "secret"}',
)


def test_a_subscriber_gets_the_events_that_it_subscribed_to() -> None:
    events = Events()
    some: list[Event] = []
    everything: list[Event] = []
    events.subscribe(some.append, Renewed, StoreRecovered)
    assert events.has_subscriber(Renewed)
    assert not events.has_subscriber(Finished)
    events.subscribe(everything.append)
    assert events.has_subscriber(Finished)
    for event in (Renewed(3), Finished(REQUEST, 0.1), StoreRecovered(1.0)):
        events.emit(event)
    assert some == [Renewed(3), StoreRecovered(1.0)]
    assert everything == [Renewed(3), Finished(REQUEST, 0.1), StoreRecovered(1.0)]


def test_an_error_of_a_subscriber_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    emitted: list[Event] = []
    events.subscribe(lambda event: 1 / 0)
    events.subscribe(emitted.append)
    events.emit(Renewed(1))
    assert emitted == [Renewed(1)]
    assert "a subscriber to Renewed failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_line_has_the_event_and_its_fields_and_no_payload(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "rowlease")
    log(Failed(REQUEST, 0.123456789, "ValueError: no\nmore", False, "ValueError", "Traceback ..."))
    log(Claimed((REQUEST, REQUEST)))
    log(WorkerStarted("host:1:ab", ("a", "b"), 4))
    assert [record.getMessage() for record in caplog.records] == [
        "failed request_id=7 queue_name=default kind=add attempt=2 seconds=0.123457 "
        "error='ValueError: no' dead=False error_type=ValueError",
        "claimed count=2",
        "worker started worker_id=host:1:ab queues=('a', 'b') slots=4",
    ]
    assert caplog.records[0].levelno == logging.WARNING
    assert vars(caplog.records[0])["request_id"] == 7
    assert vars(caplog.records[2])["event"] == "worker_started"


def test_every_field_can_be_an_attribute_of_a_log_record() -> None:
    reserved = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    for kind in Event.__subclasses__():
        assert not reserved & {field.name for field in fields(kind)}


@pytest.mark.parametrize(("level", "detailed"), [(logging.INFO, False), (logging.DEBUG, True)])
def test_events_below_the_log_level_are_not_made(
    level: int, detailed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "rowlease")
    events = Events()
    log_to(events)
    assert events.has_subscriber(Finished) is detailed
    assert all(events.has_subscriber(kind) for kind in LEVELS)
