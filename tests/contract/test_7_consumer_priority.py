"""Promise 7: while a worker of higher consumer priority can take more, a lower one gets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from rowlease.model import Claim, LeasedRequest
from tests.contract.sessions import Clock, Session


def beat(
    store: Session,
    worker: str,
    priority: int,
    *,
    slots: int = 2,
    busy: int = 0,
    queues: tuple[str, ...] = ("default",),
) -> None:
    """A worker's heartbeat."""
    store.worker_heartbeat(
        worker,
        host="h",
        pid=1,
        version="1",
        queues=queues,
        slots=slots,
        busy=busy,
        consumer_priority=priority,
    )


def claim(store: Session, worker: str, limit: int = 1, slots: int | None = None) -> Claim:
    return store.dequeue(worker, ["default"], limit, slots=slots)


def got(store: Session, worker: str, limit: int = 1) -> list[LeasedRequest]:
    return claim(store, worker, limit).requests


@pytest.fixture
def two(store: Session) -> Session:
    """A store with a `high` (10) and a `low` (0) worker, two slots each, and ten requests."""
    beat(store, "low", 0)
    beat(store, "high", 10)
    store.put(10)
    return store


def test_the_highest_worker_gets_everything_while_it_can_take_it(two: Session) -> None:
    """The first of RabbitMQ's two cases. Source: rabbitmq.com/docs/consumer-priority."""
    for _ in range(4):
        assert got(two, "low") == []
        leased = claim(two, "high", 1, slots=2).requests
        assert len(leased) == 1
        assert got(two, "low") == []
        two.complete(leased)
        beat(two, "high", 10, busy=0)


def test_when_the_highest_blocks_the_lower_one_gets_the_rest(two: Session) -> None:
    """The second of RabbitMQ's two cases: the higher one has all it can take."""
    assert len(got(two, "high", 2)) == 2
    assert len(got(two, "low", 2)) == 2


def test_three_levels_are_served_from_the_top(store: Session) -> None:
    store.put(10)
    for worker, priority in (("top", 5), ("mid", 1), ("low", -3)):
        beat(store, worker, priority, slots=1)
    assert (got(store, "low"), got(store, "mid")) == ([], [])
    assert len(got(store, "top")) == 1
    assert got(store, "low") == []
    assert len(got(store, "mid")) == 1
    assert len(got(store, "low")) == 1


def test_equals_do_not_hold_each_other_back(store: Session) -> None:
    store.put(4)
    beat(store, "one", 3)
    beat(store, "two", 3)
    assert len(got(store, "one")) == len(got(store, "two")) == 1


def test_a_worker_without_a_heartbeat_has_priority_0(two: Session) -> None:
    assert got(two, "stranger") == []
    beat(two, "high", 10, busy=2)
    assert len(got(two, "stranger")) == 1


def test_a_worker_below_0_steps_back_for_all_others(store: Session) -> None:
    store.put(2)
    beat(store, "usual", 0)
    beat(store, "spare", -1)
    assert got(store, "spare") == []
    assert len(got(store, "usual", 2)) == 2


def test_the_priority_counts_on_the_workers_own_queues_only(store: Session) -> None:
    store.configure_queue("other")
    beat(store, "low", 0, queues=("default", "other"))
    beat(store, "high", 10, queues=("other",))
    beat(store, "full", 10, busy=2)
    store.put()
    store.put(queue="other")
    taken = store.dequeue("low", ["other", "default"], 2).requests
    assert [request.queue_name for request in taken] == ["default"]


def test_a_full_worker_lets_the_lower_one_work_at_once(two: Session) -> None:
    assert got(two, "low") == []
    heard = two.listening()
    with idle(two):
        got(two, "high", 2)
        assert heard() == ["default"]
    assert len(got(two, "low")) == 1


def test_a_worker_that_says_it_is_full_lets_the_lower_one_work_at_once(two: Session) -> None:
    heard = two.listening()
    with idle(two):
        beat(two, "high", 10, busy=2)
        assert heard() == ["default"]
    assert len(got(two, "low")) == 1


def test_a_paused_worker_lets_the_lower_one_work_at_once(two: Session) -> None:
    heard = two.listening()
    with idle(two):
        beat(two, "high", 10, slots=0)
        assert heard() == ["default"]
    assert len(got(two, "low")) == 1


def test_a_worker_that_says_bye_lets_the_lower_one_work_at_once(two: Session) -> None:
    heard = two.listening()
    with idle(two):
        two.remove_worker("high")
        assert heard() == ["default"]
    assert len(got(two, "low")) == 1


def test_a_killed_worker_holds_others_back_for_two_seconds_at_most(
    two: Session, clock: Clock
) -> None:
    clock.advance(seconds=1.9)
    held_back = claim(two, "low")
    assert held_back.requests == []
    clock.advance(seconds=0.1)
    assert len(got(two, "low")) == 1


def test_a_worker_that_was_held_back_waits_only_briefly(two: Session) -> None:
    """The worker that it makes way for may be dead, and then nothing notifies it."""
    held_back = claim(two, "low")
    assert held_back.wait is not None
    assert held_back.wait <= timedelta(seconds=0.5)


def test_a_claim_is_a_sign_of_life(two: Session, clock: Clock) -> None:
    clock.advance(seconds=1.5)
    claim(two, "high", 1, slots=2)
    clock.advance(seconds=1.5)
    assert got(two, "low") == []


def test_fetching_ahead_does_not_make_a_worker_look_free(store: Session) -> None:
    """What counts are the slots that a claim has left, not the requests it fetched."""
    beat(store, "low", 0)
    beat(store, "high", 10, slots=4)
    store.put(10)
    assert len(claim(store, "high", 3, slots=2).requests) == 3
    assert len(got(store, "low")) == 1


@pytest.mark.both_ways
@pytest.mark.new_database
def test_where_all_are_equal_nothing_is_read_or_written(store: Session) -> None:
    for number in range(5):
        beat(store, f"worker {number}", 0)
    store.put(3)
    before = store.rows("worker", "*")
    cost = store.measured(lambda: got(store, "worker 0"))
    assert len(cost.value) == 1
    assert not any(name.startswith("worker") for name in cost.pages)
    assert store.rows("worker", "*") == before
    assert store.rows("queue_settings", "consumer_priorities") == [(False,)]


@contextmanager
def idle(store: Session) -> Iterator[None]:
    """A worker is idle on the queue `default`, so that notifications are sent."""
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        yield
