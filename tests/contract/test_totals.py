"""What displays and metrics read each second: counters and small tables, never the queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowlease.model import Failure, QueueState
from tests.contract.sessions import Clock, Session

AGAIN = Failure("x", timedelta(0))
DEAD = Failure("x", dead=True)


def queue(store: Session, name: str = "default") -> QueueState:
    (found,) = (each for each in store.list_queues() if each.queue_name == name)
    return found


def test_a_queue_in_which_nothing_has_happened_is_listed_too(store: Session) -> None:
    store.configure_queue("another", paused=True)
    assert store.list_queues() == [
        QueueState("another", True, 0, 0, None),
        QueueState("default", False, 0, 0, None),
    ]


def test_what_is_finished_and_what_fails_is_counted(store: Session) -> None:
    store.put(5, priority=1)
    store.put(priority=7)
    first, *others = store.claim(limit=6)
    store.complete(others[:3])
    store.fail([first], [DEAD])
    store.fail(others[3:4], [AGAIN])
    store.exchange("one", ["default"], 0, completed=[(others[4], None)], failed=[])
    assert queue(store)[2:4] == (4, 2)


def test_an_outcome_that_is_refused_or_repeated_is_counted_once(store: Session) -> None:
    store.put()
    (held,) = store.claim()
    store.complete([held])
    store.complete([held])
    store.complete([held._replace(lock_token=held.lock_token + 1)])
    assert queue(store)[2:4] == (1, 0)


def test_abandoned_and_cancelled_requests_are_neither_finished_nor_failed(store: Session) -> None:
    first, second = store.put(2)
    store.abandon(store.claim(limit=1))
    store.cancel([first, second])
    assert queue(store)[2:4] == (0, 0)


def test_the_totals_outlive_folding_and_are_no_depth(store: Session) -> None:
    store.put(20)
    for held in store.claim(limit=20):
        store.complete([held])
    assert len(store.rows("queue_depth", "priority")) > 20
    store.maintain()
    assert len(store.rows("queue_depth", "priority")) == 1
    assert queue(store).num_finished == 20
    assert store.depth() == []
    store.maintain()
    assert queue(store).num_finished == 20


def test_the_oldest_is_the_one_that_was_due_first(store: Session, clock: Clock) -> None:
    store.put(priority=1, delay=timedelta(seconds=5))
    assert queue(store).oldest is None
    clock.advance(seconds=15)
    store.maintain()
    store.put(priority=9)
    assert queue(store).oldest == timedelta(seconds=10)
    clock.advance(seconds=2)
    assert queue(store).oldest == timedelta(seconds=12)
    for held in store.claim(limit=2):
        store.complete([held])
    assert queue(store).oldest is None


def test_an_abandoned_request_keeps_its_age(store: Session, clock: Clock) -> None:
    store.put()
    clock.advance(seconds=3)
    store.abandon(store.claim())
    store.put()
    assert queue(store).oldest == timedelta(seconds=3)


@pytest.mark.new_database
def test_it_does_not_cost_more_when_more_waits(store: Session) -> None:
    store.put(10)
    few = store.measured(store.list_queues)
    store.fill(20_000)
    many = store.measured(store.list_queues)
    assert many.value[0].oldest is not None
    assert many.full_scans.keys() <= {"queue_settings", "queue_depth"}
    assert many.pages.get("queue", 0) <= few.pages.get("queue", 0) + 10


def test_a_worker_is_listed_until_it_says_bye(store: Session, clock: Clock) -> None:
    assert store.list_workers() == []
    beat = {"host": "here", "pid": 7, "version": "1", "queues": ["a", "b"], "slots": 4}
    store.worker_heartbeat("one", **beat, busy=3, consumer_priority=2)  # type: ignore[arg-type]
    clock.advance(seconds=4)
    (found,) = store.list_workers()
    assert found[:4] == ("one", "here", 7, "1")
    assert found.queue_names == ("a", "b")
    assert (found.slots, found.busy, found.consumer_priority) == (4, 3, 2)
    assert found.silent == timedelta(seconds=4)
    assert clock.now - found.started_time == timedelta(seconds=4)
    store.remove_worker("one")
    assert store.list_workers() == []


@pytest.mark.parametrize("role", ["reader", "operator", "worker"])
def test_who_may_look_may_look_at_these(store: Session, role: str) -> None:
    with store.acting_as(role):
        assert store.list_queues()
        assert store.list_workers() == []
