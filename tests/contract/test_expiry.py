"""A request that has not started in time is cancelled by the worker that claims it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest
from rowlease.model import Failure, Outcome
from rowlease.tasks.requests import untyped_request
from rowlease.worker.claims.before_start import has_expired
from tests.contract.sessions import Clock, Session

MINUTE = timedelta(minutes=1)


def put(store: Session, **options: Any) -> int:
    made = untyped_request("a", expires=MINUTE, **options)
    (one,) = store.enqueue_many("default", [made.new])
    assert one.request_id
    return one.request_id


def test_a_request_has_expired_if_it_is_claimed_after_its_time(
    store: Session, clock: Clock
) -> None:
    in_time, late = put(store), put(store)
    clock.advance(MINUTE)
    (first,) = store.claim()
    assert (first.request_id, has_expired(first)) == (in_time, False)
    clock.advance(seconds=1)
    (second,) = store.claim()
    assert (second.request_id, has_expired(second)) == (late, True)
    store.put()
    (other,) = store.claim()
    assert not has_expired(other)


def test_a_request_that_has_started_is_tried_again_whenever(store: Session, clock: Clock) -> None:
    put(store)
    store.fail(store.claim(), [Failure("no", after=timedelta(0))])
    clock.advance(hours=1)
    (again,) = store.claim()
    assert not has_expired(again)


def test_an_expired_request_is_cancelled_with_the_reason(store: Session, clock: Clock) -> None:
    request = put(store, group_key="g")
    put(store, group_key="g")
    (held,) = store.claim()
    assert store.expire([held]) == [Outcome.OK]
    row = store.row(request)
    assert (row["status"], row["num_attempts"]) == ("Cancelled", 0)
    assert row["last_error"] == "it expired before it started"
    assert store.expire([held]) == [Outcome.REPEAT]
    assert len(store.claim()) == 1, "the group goes on"
    assert store.counted() == store.depth()


def test_only_the_owner_of_the_lease_can_expire_a_request(store: Session, clock: Clock) -> None:
    put(store)
    (late,) = store.claim()
    clock.advance(seconds=31)
    (held,) = store.claim("two")
    before = store.everything()
    assert store.expire([late]) == [Outcome.LEASE_LOST]
    assert store.expire([held._replace(request_id=10**9)]) == [Outcome.NOT_FOUND]
    assert store.everything() == before
    assert store.complete([held]) == [Outcome.OK]


@pytest.mark.parametrize("wrong", [timedelta(0), -MINUTE, 5, "1m"])
def test_a_wrong_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="expires is"):
        untyped_request("a", expires=wrong)


@pytest.mark.parametrize("header", ["soon", "nan", "1e99", "[]"])
def test_a_header_that_is_no_number_expires_nothing(
    store: Session, clock: Clock, header: str
) -> None:
    made = untyped_request("a", headers={"expires_seconds": header})
    store.enqueue_many("default", [made.new])
    clock.advance(hours=1)
    (held,) = store.claim()
    assert not has_expired(held)
