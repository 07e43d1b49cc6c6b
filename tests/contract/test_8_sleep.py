"""Promise 8: an empty claim returns how long the queue will stay empty."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.contract.sessions import IGNORES_HINTS, INFINITY, Clock, Session
from tests.contract.test_3_order import Another

pytestmark = pytest.mark.both_ways


def test_an_empty_claim_returns_when_the_next_request_is_due(store: Session, clock: Clock) -> None:
    store.put(delay=timedelta(seconds=90))
    assert store.dequeue("one", ["default"], 1).wait == timedelta(seconds=90)
    store.put()
    leased = store.claim()
    assert store.dequeue("one", ["default"], 1).wait == timedelta(seconds=30)
    clock.advance(seconds=12.5)
    assert store.dequeue("one", ["default"], 1).wait == timedelta(seconds=17.5)
    store.complete(leased)
    claim = store.dequeue("one", ["default"], 1)
    assert (claim.wait, claim.more) == (timedelta(seconds=77.5), False)


def test_where_nothing_is_to_come_there_is_no_time_to_wait_for(store: Session) -> None:
    claim = store.dequeue("one", ["default"], 1)
    assert (claim.requests, claim.more, claim.wait) == ([], False, None)


@INFINITY
@pytest.mark.parametrize("time", ["infinity", "-infinity"])
def test_a_lease_s_end_that_was_set_by_hand_stops_no_claim(store: Session, time: str) -> None:
    store.put()
    store.claim()
    store.execute(f"update rowlease.queue set lock_expires_time = '{time}'")
    assert store.dequeue("one", ["default"], 1).wait is None


@pytest.mark.parametrize("rate", [None, "9/1m"])
@pytest.mark.parametrize("held_back", ["due", "lease that has run out"])
def test_a_request_that_another_transaction_makes_claimable_is_not_slept_through(
    store: Session, another: Another, clock: Clock, held_back: str, rate: str | None
) -> None:
    """A claim skips it, because it is locked; `maintain` may commit a moment later."""
    if not store.skips_locked:
        pytest.skip(IGNORES_HINTS)
    store.configure_queue("default", rate=rate)
    if held_back == "due":
        (request,) = store.put(delay=timedelta(seconds=10))
    else:
        (request,) = store.put()
        store.claim()
    clock.advance(minutes=1)
    other = another()
    other.begin()
    assert other.maintain()
    claim = store.dequeue("one", ["default"], 1)
    assert (claim.requests, claim.more, claim.wait) == ([], False, timedelta(0))
    other.commit()
    assert [one.request_id for one in store.claim()] == [request]


def test_what_is_due_in_a_paused_queue_is_slept_through(store: Session, clock: Clock) -> None:
    store.put(delay=timedelta(seconds=10))
    store.pause("default")
    clock.advance(minutes=1)
    claim = store.dequeue("one", ["default"], 1)
    assert (claim.requests, claim.more, claim.wait) == ([], False, None)


def test_the_soonest_of_several_queues_counts(store: Session) -> None:
    store.configure_queue("other")
    store.put(delay=timedelta(seconds=90))
    store.put(queue="other", delay=timedelta(seconds=60))
    assert store.dequeue("one", ["default", "other"], 1).wait == timedelta(seconds=60)


def test_a_full_claim_says_that_there_may_be_more(store: Session) -> None:
    store.put(2)
    assert store.dequeue("one", ["default"], 1).more
    assert not store.dequeue("one", ["default"], 2).more


def test_a_claim_that_takes_all_there_is_says_when_there_will_be_more(store: Session) -> None:
    store.put()
    store.put(delay=timedelta(seconds=20))
    claim = store.dequeue("one", ["default"], 2)
    assert (len(claim.requests), claim.wait) == (1, timedelta(seconds=20))


def test_a_request_scheduled_meanwhile_is_not_slept_through(store: Session, clock: Clock) -> None:
    """A floor must not hide a request that is due earlier than all known ones."""
    store.put(delay=timedelta(seconds=90))
    floor = store.dequeue("one", ["default"], 1).floor
    store.put(delay=timedelta(seconds=2))
    claim = store.dequeue("one", ["default"], 1, floor=floor)
    assert claim.wait == timedelta(seconds=2)


def test_a_shorter_lease_taken_meanwhile_is_not_slept_through_for_more_than_a_second(
    store: Session, clock: Clock
) -> None:
    store.put(2)
    store.claim()
    floor = store.dequeue("one", ["default"], 2).floor
    floor = store.dequeue("one", ["default"], 2, floor=floor).floor
    store.put()
    store.claim("other", lease=timedelta(seconds=5))
    clock.advance(seconds=1.001)
    assert store.dequeue("one", ["default"], 1, floor=floor).wait == timedelta(seconds=3.999)
