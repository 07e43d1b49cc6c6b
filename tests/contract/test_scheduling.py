"""Scheduling: a request runs when it is due, by the database's clock, and then in its order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rowlease.model import Failure, Maintained, NewRequest
from tests.contract.sessions import Clock, Session
from tests.contract.test_3_order import ids

pytestmark = pytest.mark.both_ways


def statuses(store: Session) -> list[str]:
    return [status for _, status in store.rows("queue", "request_id", "status")]


@pytest.mark.parametrize("given", ["delay", "instant", "instant in another time zone"])
def test_a_request_is_taken_when_it_is_due_and_not_before(
    store: Session, clock: Clock, given: str
) -> None:
    due = clock.now + timedelta(minutes=5)
    match given:
        case "delay":
            (request,) = store.put(delay=timedelta(minutes=5))
        case "instant":
            (request,) = store.put(due_time=due)
        case _:
            (request,) = store.put(due_time=due.astimezone(timezone(timedelta(hours=9))))
    assert statuses(store) == ["Scheduled"]
    clock.advance(minutes=4, seconds=59.999)
    assert store.claim() == []
    clock.advance(milliseconds=1)
    (leased,) = store.claim()
    assert (leased.request_id, leased.due_time) == (request, due)


def test_an_instant_wins_over_a_delay(store: Session, clock: Clock) -> None:
    store.put(due_time=clock.now + timedelta(hours=2), delay=timedelta(hours=1))
    assert store.rows("queue", "due_time") == [(clock.now + timedelta(hours=2),)]


@pytest.mark.parametrize(
    "when",
    [
        {"due_time": datetime(1999, 1, 1, tzinfo=UTC)},
        {"due_time": datetime(2026, 1, 1, 12, tzinfo=UTC)},
        {"delay": timedelta(0)},
        {"delay": timedelta(hours=-1)},
    ],
)
def test_a_past_instant_means_now(store: Session, clock: Clock, when: dict[str, Any]) -> None:
    """It does not go before those that are waiting."""
    (first,) = store.put()
    (second,) = store.put(**when)
    assert statuses(store) == ["Pending", "Pending"]
    others = store.put(2, **when)
    assert store.rows("queue", "due_time") == [(clock.now,)] * 4
    assert ids(store.claim(limit=4)) == [first, second, *others]


def test_a_claim_moves_due_requests(store: Session, clock: Clock) -> None:
    requests = store.put(5, delay=timedelta(seconds=10))
    clock.advance(seconds=10)
    assert ids(store.claim(limit=2)) == requests[:2]
    assert statuses(store) == ["Processing"] * 2 + ["Pending"] * 3
    assert store.depth() == store.counted()


def test_only_due_requests_are_moved(store: Session, clock: Clock) -> None:
    (first,) = store.put(delay=timedelta(seconds=10))
    store.put(delay=timedelta(seconds=11))
    clock.advance(seconds=10)
    assert ids(store.claim(limit=2)) == [first]
    assert statuses(store) == ["Processing", "Scheduled"]


def test_a_claim_moves_a_bounded_number_and_asks_to_be_repeated(
    store: Session, clock: Clock
) -> None:
    requests = store.put(500, delay=timedelta(seconds=10))
    clock.advance(seconds=10)
    claim = store.dequeue("one", ["default"], 1)
    assert claim.more
    assert statuses(store).count("Scheduled") >= 450
    taken = ids(claim.requests)
    floor = claim.floor
    while len(taken) < 500:
        claim = store.dequeue("one", ["default"], 50, floor=floor)
        assert claim.requests, "there are more, and the claim does not find them"
        taken += ids(claim.requests)
        floor = claim.floor
    assert sorted(taken) == requests


def test_of_many_that_are_due_the_first_goes_first_whatever_has_been_moved(
    store: Session, clock: Clock
) -> None:
    """A priority that was found empty must not stay so while there is more to move."""
    store.put(60, priority=1, delay=timedelta(seconds=10))
    urgent = store.put(priority=9, delay=timedelta(seconds=11))
    clock.advance(seconds=20)
    floor = None
    taken: list[int] = []
    for _ in range(4):
        claim = store.dequeue("one", ["default"], 10, floor=floor)
        floor = claim.floor
        taken += ids(claim.requests)
    assert urgent[0] in taken


def test_maintain_moves_due_requests(store: Session, clock: Clock) -> None:
    store.put(3, delay=timedelta(seconds=10))
    clock.advance(seconds=10)
    assert Maintained("scheduled requests due", 3) in store.maintain()
    assert statuses(store) == ["Pending"] * 3
    assert store.depth() == store.counted()


def test_due_requests_stand_by_priority_and_then_by_due_time(store: Session, clock: Clock) -> None:
    third = store.put(delay=timedelta(seconds=3))
    second = store.put(delay=timedelta(seconds=2))
    first = store.put(delay=timedelta(seconds=4), priority=1)
    clock.advance(seconds=5)
    last = store.put()
    assert ids(store.claim(limit=4)) == [*first, *second, *third, *last]


def test_a_scheduled_request_does_not_stand_before_those_that_can_run(store: Session) -> None:
    store.put(priority=9, delay=timedelta(hours=1))
    now = store.put(priority=0)
    assert ids(store.claim(limit=2)) == now


def test_a_paused_queue_moves_nothing_and_catches_up(store: Session, clock: Clock) -> None:
    requests = store.put(2, delay=timedelta(seconds=1))
    store.pause("default")
    clock.advance(hours=1)
    assert store.claim(limit=2) == []
    store.resume("default")
    assert ids(store.claim(limit=2)) == requests


def test_a_retry_is_scheduled_and_keeps_its_request_out_of_sight_until_then(
    store: Session, clock: Clock
) -> None:
    store.put(priority=9)
    store.put(priority=0)
    (urgent,) = store.claim()
    store.fail([urgent], [Failure("x", after=timedelta(seconds=7))])
    assert statuses(store)[0] == "Scheduled"
    assert [r.priority for r in store.claim(limit=2)] == [0]
    assert store.dequeue("one", ["default"], 1).wait == timedelta(seconds=7)
    clock.advance(seconds=7)
    assert ids(store.claim(limit=2)) == [urgent.request_id]


@pytest.mark.parametrize("requests", [[], [timedelta(days=3650)]])
def test_the_time_until_the_next_is_due_is_exact_to_the_millisecond(
    store: Session, requests: list[timedelta]
) -> None:
    for delay in requests:
        store.put(delay=delay)
    store.enqueue_many("default", [NewRequest(kind="a", delay=timedelta(milliseconds=1501))])
    assert store.dequeue("one", ["default"], 1).wait == timedelta(milliseconds=1501)
