"""Snooze: a task has its request run again later, and no attempt is counted."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import LeaseLost, RoutineError
from rowlease.model import Failure, Outcome
from tests.contexts import context_of
from tests.contract.sessions import Clock, Session

MINUTE = timedelta(minutes=1)


def state(store: Session, request: int) -> tuple[Any, ...]:
    row = store.row(request)
    return row["status"], row["num_attempts"], row["num_abandons"], row["due_time"]


def test_a_snoozed_request_waits_and_its_attempt_is_not_counted(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(max_attempts=1)
    for _ in range(12):
        (held,) = store.claim()
        assert held.num_attempts == 1
        assert store.snooze([held], [MINUTE], ["not ready"]) == [Outcome.OK]
        assert state(store, request) == ("Scheduled", 0, 0, clock.now + MINUTE)
        assert store.claim() == []
        clock.advance(MINUTE)
    assert store.counted() == store.depth()
    store.complete(store.claim())
    assert store.row(request)["status"] == "Complete"


def test_a_snooze_lasts_at_least_a_second_and_at_most_ten_years(
    store: Session, clock: Clock
) -> None:
    ids = store.put(4)
    day = timedelta(days=1)
    asked = [timedelta(0), -day, timedelta(milliseconds=1001), 9999 * day]
    store.snooze(store.claim(limit=4), asked)
    second = timedelta(seconds=1)
    waits = [store.row(request)["due_time"] - clock.now for request in ids]
    assert waits == [second, second, timedelta(milliseconds=1001), 3650 * day]


def test_only_the_owner_of_the_lease_can_snooze(store: Session, clock: Clock) -> None:
    (request, other) = store.put(2)
    late, valid = store.claim(limit=2)
    store.renew([valid], lease=timedelta(hours=1))
    clock.advance(seconds=31)
    (held,) = store.claim("two")
    assert held.request_id == request
    before = store.everything()
    assert store.snooze([late], [MINUTE]) == [Outcome.LEASE_LOST]
    unknown = late._replace(request_id=10**9)
    assert store.snooze([unknown], [MINUTE]) == [Outcome.NOT_FOUND]
    assert store.everything() == before
    assert store.snooze([valid, late, held], [MINUTE] * 3) == [
        Outcome.OK,
        Outcome.LEASE_LOST,
        Outcome.OK,
    ]
    assert store.snooze([held], [MINUTE]) == [Outcome.REPEAT]
    assert store.complete([held]) == [Outcome.REPEAT]
    assert store.fail([held], [Failure("x")]) == [Outcome.REPEAT]
    assert [store.row(id)["status"] for id in (request, other)] == ["Scheduled"] * 2


def test_arrays_of_different_lengths_are_refused(store: Session) -> None:
    store.put()
    held = store.claim()
    for delays, reasons in (([], None), ([MINUTE] * 2, None), ([MINUTE], ["a", "b"])):
        with pytest.raises(RoutineError, match="the same length"):
            store.snooze(held, delays, reasons)


def test_a_request_that_was_to_be_cancelled_is_cancelled_instead(store: Session) -> None:
    (request, second) = store.put(2, group_key="g")
    held = store.claim()
    store.cancel([request])
    assert store.snooze(held, [MINUTE]) == [Outcome.OK]
    assert store.row(request)["status"] == "Cancelled"
    assert [one.request_id for one in store.claim()] == [second]
    assert store.counted() == store.depth()


def test_a_snoozed_request_blocks_its_group(store: Session, clock: Clock) -> None:
    (first, second) = store.put(2, group_key="g")
    store.snooze(store.claim(), [MINUTE])
    assert store.claim() == []
    assert store.explain(second).reason == "group"
    clock.advance(MINUTE)
    (held,) = store.claim(limit=2)
    assert held.request_id == first


def test_a_snooze_ends_a_row_of_abandons(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    for _ in range(9):
        store.abandon(store.claim())
    assert store.row(request)["num_abandons"] == 9
    store.snooze(store.claim(), [MINUTE])
    assert store.row(request)["num_abandons"] == 0


def test_the_last_snooze_is_kept_and_displaces_no_error(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    store.fail(store.claim(), [Failure("no luck", after=timedelta(0))])
    for number in range(12):
        store.snooze(store.claim("w"), [MINUTE], [f"look {number}" + "x" * 3000])
        clock.advance(MINUTE)
    found = store.get_request(request)
    assert found
    assert found.last_error == "no luck"
    failed, snoozed = found.attempts
    assert (failed.outcome, failed.error) == ("failed", "no luck")
    assert (snoozed.outcome, snoozed.worker_id, snoozed.attempt_number) == ("snoozed", "w", 2)
    assert snoozed.error == ("look 11" + "x" * 3000)[:2000]


def test_explain_says_that_a_task_has_snoozed_its_request(store: Session, clock: Clock) -> None:
    first, second = store.put(2)
    store.snooze(store.claim(limit=2), [MINUTE] * 2, ["the report is not ready", "x"])
    reason, message = store.explain(first)
    assert reason == "snoozed"
    assert message.startswith("its task snoozed it at ")
    assert "the report is not ready; it is due at " in message
    clock.advance(MINUTE)
    store.worker_heartbeat("one", host="h", pid=1, version="0", queues=["default"], slots=1, busy=0)
    assert store.explain(first).reason == "next"
    held = store.claim(limit=2)
    store.fail(held, [Failure("no", after=MINUTE)] * 2)
    assert store.explain(second).reason == "scheduled"


def test_a_snooze_is_part_of_the_callers_transaction(store: Session, clock: Clock) -> None:
    store.put()
    (late,) = store.claim("one")
    clock.advance(seconds=31)
    (held,) = store.claim("two")
    with closing(store.driver_connection()) as connection:
        with pytest.raises(LeaseLost):
            context_of(late).snooze(connection, MINUTE)
        connection.rollback()
        context_of(held).snooze(connection, MINUTE, "later")
        assert store.row(held.request_id)["status"] == "Processing"
        connection.rollback()
        assert store.row(held.request_id)["status"] == "Processing"
        context_of(held).snooze(connection, MINUTE, "later")
        connection.commit()
        assert store.row(held.request_id)["status"] == "Scheduled"
        with pytest.raises(LeaseLost):
            context_of(held).snooze(connection, MINUTE)
    assert store.complete([held]) == [Outcome.REPEAT]
