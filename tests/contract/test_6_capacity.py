"""Promise 6: capacity bounds waiting requests; producers are admitted by priority, then FIFO.

The first five tests are the five points of Kafka's proposal for a PrioritizationAwareBlockingQueue:
one global bound for all priorities, any mix of them inside it, the blocked producer of the
highest priority first, dequeue by priority, and a count for each priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from rowlease.client.client import Client
from rowlease.client.handle import Handle
from rowlease.errors import InvalidRequest, QueueFull
from rowlease.model import Enqueued, Failure, NewRequest, Outcome
from rowlease.tasks.requests import untyped_request
from tests.contract.sessions import Clock, Session
from tests.waiting import until

Another = Callable[[], Session]
LONG = timedelta(seconds=60)


def offer(
    store: Session, priority: int = 0, waiter_id: int | None = None, count: int = 1
) -> Enqueued:
    """One try of a producer that is ready to wait: `ok`, or `full` and its place."""
    batch = [NewRequest(kind="a", priority=priority)] * count
    return store.enqueue_many("default", batch, wait=LONG, waiter_id=waiter_id)[0]


def full(store: Session, capacity: int = 1) -> None:
    """Have the queue `default` full."""
    store.configure_queue("default", capacity=capacity)
    store.put(capacity)


@pytest.fixture
def producers(
    dsn: str, store: Session
) -> Iterator[Callable[[int, timedelta], Future[Handle[Any]]]]:
    """Starts a producer with a client, connections and a thread of its own; time runs."""
    store.freeze(None)

    def produce(priority: int, wait: timedelta) -> Handle[Any]:
        with Client(dsn) as client:
            return client.enqueue_untyped("a", {"p": priority}, priority=priority, wait=wait)

    with ThreadPoolExecutor(16) as pool:

        def start(priority: int, wait: timedelta = LONG) -> Future[Handle[Any]]:
            return pool.submit(produce, priority, wait)

        yield start


def waiters(store: Session) -> int:
    return len(store.rows("queue_waiter", "waiter_id"))


# -- the five points of the proposal -----------------------------------------------------------


def test_1_one_bound_holds_for_all_priorities_together(store: Session) -> None:
    store.configure_queue("default", capacity=3)
    for priority in (9, 0, 5):
        store.put(priority=priority)
    before = store.everything()
    for priority in (9, 0, 5):
        with pytest.raises(QueueFull, match='queue "default" is full: 3 of 3 places are taken'):
            store.put(priority=priority)
    assert store.everything() == before


def test_a_call_larger_than_the_capacity_is_told_to_split(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    with pytest.raises(QueueFull, match="3 more cannot fit; split the call, or raise the capacity"):
        store.put(3)
    assert len(store.put(2)) == 2


@pytest.mark.parametrize("priorities", [[0, 0, 0, 0], [9, 9, 9, 9], [0, 3, 6, 9], [9, 0, 0, 9]])
def test_2_any_mix_of_priorities_fits_inside_the_bound(
    store: Session, priorities: list[int]
) -> None:
    store.configure_queue("default", capacity=4)
    for priority in priorities:
        store.put(priority=priority)
    assert [p for (p,) in store.rows("queue", "priority")] == sorted(priorities)


def test_3_the_blocked_producer_of_the_highest_priority_is_admitted_first(
    store: Session, producers: Callable[[int], Future[Handle[Any]]]
) -> None:
    full(store)
    blocked: dict[int, Future[Handle[Any]]] = {}
    for place, priority in enumerate((1, 9, 5), 1):
        blocked[priority] = producers(priority)
        until(lambda place=place: waiters(store) == place)  # type: ignore[misc]
    for priority in (9, 5, 1):
        store.claim(limit=1)
        assert blocked.pop(priority).result(60).outcome is Outcome.OK
        assert not any(other.done() for other in blocked.values())
        assert sum(d.pending for d in store.depth()) == 1
    assert waiters(store) == 0


def test_4_what_was_admitted_is_dequeued_by_priority(store: Session) -> None:
    store.configure_queue("default", capacity=4)
    for priority in (0, 9, 3, 9):
        store.put(priority=priority)
    assert [request.priority for request in store.claim(limit=4)] == [9, 9, 3, 0]


def test_5_there_is_a_count_for_each_priority(store: Session) -> None:
    store.configure_queue("default", capacity=6)
    store.put(3, priority=1)
    store.put(2, priority=7)
    assert [(d.priority, d.pending) for d in store.depth("default")] == [(7, 2), (1, 3)]


# -- what counts -------------------------------------------------------------------------------


def test_scheduled_requests_count_and_running_ones_do_not(store: Session, clock: Clock) -> None:
    store.configure_queue("default", capacity=2)
    store.put(delay=timedelta(hours=1))
    store.put()
    with pytest.raises(QueueFull):
        store.put()
    store.claim()
    store.put()
    with pytest.raises(QueueFull):
        store.put(delay=timedelta(hours=1))


@pytest.mark.parametrize("how", ["abandon", "retry", "retry at once", "broken lease", "requeue"])
def test_a_returning_request_always_fits(store: Session, clock: Clock, how: str) -> None:
    store.configure_queue("default", capacity=1)
    store.put(max_attempts=1 if how == "requeue" else 5)
    leased = store.claim()
    full(store)
    if how == "abandon":
        store.abandon(leased)
    elif how == "broken lease":
        clock.advance(seconds=31)
        store.maintain()
    else:
        after = timedelta(0) if how == "retry at once" else None
        store.fail(leased, [Failure("x", after)])
        if how == "requeue":
            store.requeue([leased[0].request_id])
    ((_, _, scheduled, pending, processing, failed),) = store.depth()
    assert (scheduled + pending, processing, failed) == (2, 0, 0)
    with pytest.raises(QueueFull, match="2 of 1 places"):
        store.put()


def test_two_of_two_places_that_are_free_again_can_be_taken(store: Session) -> None:
    full(store, 2)
    leased = store.claim(limit=2)
    store.put(2)
    store.complete(leased)
    with pytest.raises(QueueFull):
        store.put()


# -- all or none -------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_fails_whole(store: Session) -> None:
    store.configure_queue("default", capacity=3)
    store.put()
    before = store.everything()
    with pytest.raises(QueueFull, match="3 more cannot fit"):
        store.put(3)
    assert store.everything() == before
    store.put(2)


@pytest.mark.only_on("postgresql", why="an enqueue waits there for a change of the settings")
def test_an_enqueue_that_waited_for_the_end_of_the_capacity_fits(
    store: Session, another: Another
) -> None:
    full(store)
    store.begin()
    store.configure_queue("default", capacity=None)
    other = another()
    second = other.waiting(lambda: other.put())
    store.commit()
    assert len(second.result(10)) == 1


def test_a_load_that_does_not_fit_fails_whole_and_may_be_promoted_later(store: Session) -> None:
    store.configure_queue("default", capacity=3)
    (waiting,) = store.put()
    run = store.staged("load", [{"group_key": "g"}] * 3)
    before = store.everything()
    with pytest.raises(QueueFull):
        store.promote("load", run, 3)
    assert store.everything() == before
    store.cancel([waiting])
    assert store.promote("load", run, 3).outcome is Outcome.OK


def test_an_insert_into_the_inbox_that_does_not_fit_fails_whole(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    with pytest.raises(QueueFull):
        store.insert_many("inbox", [{"kind": "a"}] * 3)
    assert store.everything() == []
    store.insert_many("inbox", [{"kind": "a"}] * 2)
    with pytest.raises(QueueFull):
        store.insert("inbox", kind="a")
    assert len(store.rows("queue", "request_id")) == 2


# -- places in the line ------------------------------------------------------------------------


def test_producers_of_equal_priority_are_admitted_in_order(store: Session) -> None:
    full(store)
    first, second = offer(store), offer(store)
    assert (first.outcome, second.outcome) == (Outcome.FULL, Outcome.FULL)
    store.claim()
    assert offer(store, waiter_id=second.request_id).outcome is Outcome.FULL
    assert offer(store, waiter_id=first.request_id).outcome is Outcome.OK
    store.claim()
    assert offer(store, waiter_id=second.request_id).outcome is Outcome.OK


@pytest.mark.parametrize("priority", [3, 0])
def test_a_newcomer_does_not_jump_ahead_of_its_equals_and_betters(
    store: Session, priority: int
) -> None:
    full(store)
    place = offer(store, 3)
    store.claim()
    with pytest.raises(QueueFull, match="0 of 1 places are taken and 1 reserved"):
        store.put(priority=priority)
    assert offer(store, priority).outcome is Outcome.FULL
    assert offer(store, 3, waiter_id=place.request_id).outcome is Outcome.OK


def test_a_newcomer_of_higher_priority_goes_first(store: Session) -> None:
    full(store)
    place = offer(store, 3)
    store.claim()
    store.put(priority=4)
    assert offer(store, 3, waiter_id=place.request_id).outcome is Outcome.FULL


def test_there_may_be_room_for_those_behind_as_well(store: Session) -> None:
    full(store, 4)
    first, second = offer(store, 5), offer(store, 1, count=2)
    store.claim(limit=3)
    assert offer(store, 1, second.request_id, count=2).outcome is Outcome.OK
    assert offer(store, 5, first.request_id).outcome is Outcome.OK


def test_a_large_batch_that_waits_is_not_overtaken_by_small_ones(store: Session) -> None:
    full(store, 3)
    large = offer(store, count=3)
    store.claim(limit=2)
    assert offer(store).outcome is Outcome.FULL
    store.claim(limit=1)
    assert offer(store, waiter_id=large.request_id, count=3).outcome is Outcome.OK


def test_a_batch_larger_than_the_queue_is_refused_at_once(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    with pytest.raises(QueueFull):
        offer(store, count=3)
    assert waiters(store) == 0


def test_priorities_above_the_maximum_wait_as_the_maximum(store: Session) -> None:
    full(store)
    first, second = offer(store, 9), offer(store, 200_000)
    store.claim()
    assert offer(store, 200_000, second.request_id).outcome is Outcome.FULL
    assert offer(store, 9, first.request_id).outcome is Outcome.OK


def test_a_producer_that_died_blocks_others_for_at_most_two_seconds(
    store: Session, clock: Clock
) -> None:
    full(store)
    offer(store, 9)
    store.claim()
    clock.advance(seconds=1.9)
    with pytest.raises(QueueFull):
        store.put()
    clock.advance(seconds=0.1)
    store.put()


def test_asking_again_keeps_the_place(store: Session, clock: Clock) -> None:
    full(store)
    place = offer(store, 1)
    for _ in range(3):
        clock.advance(seconds=1.5)
        assert offer(store, 1, place.request_id) == place
    store.claim()
    with pytest.raises(QueueFull):
        store.put(priority=1)


def test_a_place_in_line_ends_with_the_wait_of_its_producer(store: Session, clock: Clock) -> None:
    full(store)
    request = NewRequest(kind="a", priority=9)
    (place,) = store.enqueue_many("default", [request], wait=timedelta(seconds=0.5))
    with pytest.raises(QueueFull):
        store.enqueue_many("default", [request], wait=timedelta(0), waiter_id=place.request_id)
    store.claim()
    clock.advance(seconds=0.5)
    store.put()


def test_places_that_are_not_kept_expire(store: Session, clock: Clock) -> None:
    full(store)
    offer(store)
    clock.advance(seconds=63)
    store.maintain()
    assert waiters(store) == 0


def test_a_receipt_counts_only_once_there_was_room(store: Session) -> None:
    full(store)
    request = NewRequest(kind="a")
    (place,) = store.enqueue_many("default", [request], receipt_key="k", wait=LONG)
    store.claim()
    (done,) = store.enqueue_many(
        "default", [request], receipt_key="k", wait=LONG, waiter_id=place.request_id
    )
    assert done.outcome is Outcome.OK
    (again,) = store.enqueue_many("default", [request], receipt_key="k", wait=LONG)
    assert again == done._replace(outcome=Outcome.REPEAT)


# -- notifications for producers that wait for room --------------------------------------------


def test_a_claim_notifies_only_if_producers_wait(store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    full(store, 2)
    heard = store.listening(room=True)
    store.claim()
    assert heard() == []
    store.put()
    offer(store)
    store.claim()
    assert heard() == ["default"]


def test_an_admitted_producer_notifies_the_next(store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    full(store, 2)
    first, _ = offer(store), offer(store)
    store.claim(limit=2)
    heard = store.listening(room=True)
    offer(store, waiter_id=first.request_id)
    assert heard() == ["default"]


def test_a_larger_capacity_notifies(store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    full(store)
    heard = store.listening(room=True)
    store.configure_queue("default", capacity=2)
    assert heard() == ["default"]


# -- the client --------------------------------------------------------------------------------


def test_a_client_that_waits_gets_in_as_soon_as_there_is_room(
    store: Session, producers: Callable[[int], Future[Handle[Any]]]
) -> None:
    full(store)
    call = producers(0)
    until(lambda: waiters(store) == 1)
    store.claim()
    assert call.result(60).outcome is Outcome.OK
    assert waiters(store) == 0


def test_a_client_whose_patience_ends_enqueues_nothing(
    store: Session, producers: Callable[[int, timedelta], Future[Handle[Any]]]
) -> None:
    full(store)
    with pytest.raises(QueueFull):
        producers(0, timedelta(seconds=0.3)).result(60)
    assert len(store.rows("requests", "request_id")) == 1
    store.claim()
    until(lambda: len(store.put()) == 1 if waiters_are_gone(store) else False)


def waiters_are_gone(store: Session) -> bool:
    now = store.now()
    return all(until <= now for (until,) in store.rows("queue_waiter", "expires_time"))


@pytest.mark.only_on("postgresql", why="no other engine has notifications")
def test_a_client_that_lost_its_notifications_is_admitted(
    store: Session, producers: Callable[[int], Future[Handle[Any]]]
) -> None:
    full(store)
    call = producers(0)
    until(lambda: waiters(store) == 1)
    until(
        lambda: bool(
            store.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and query like '%%rowlease.listen%%'"
                "   and pid <> pg_backend_pid()"
            )
        )
    )
    store.claim()
    assert call.result(60).outcome is Outcome.OK


def test_a_call_in_a_transaction_does_not_wait(dsn: str, store: Session) -> None:
    full(store)
    with Client(dsn) as client, closing(store.driver_connection()) as connection:
        with pytest.raises(InvalidRequest, match="a transaction must not wait"):
            client.bind(connection).enqueue_untyped("a", wait=timedelta(seconds=1))
        with pytest.raises(QueueFull):
            client.bind(connection).enqueue_untyped("a")
    with Client(dsn) as client, pytest.raises(QueueFull):
        client.enqueue_untyped("a")


# -- what it costs -----------------------------------------------------------------------------


def by_inbox(store: Session) -> None:
    store.insert("inbox", queue_name="default", kind="k")


@pytest.mark.parametrize("enqueue", [Session.put, by_inbox])
def test_an_unbounded_queue_takes_no_lock(
    enqueue: Callable[[Session], object], store: Session, another: Another
) -> None:
    store.configure_queue("bounded", capacity=9)
    holder = another()
    holder.begin()
    holder.configure_queue("default")  # keeps the row of its settings
    holder.put(queue="bounded")
    call = store.in_background(lambda: enqueue(store))
    assert store.settles(call), "an enqueue to an unbounded queue waits for its settings"
    call.result()
    bounded = store.waiting(lambda: store.put(queue="bounded"))
    holder.rollback()
    assert len(bounded.result()) == 1


def test_eight_producers_at_once_never_exceed_the_bound(dsn: str, store: Session) -> None:
    store.configure_queue("default", capacity=50)

    def produce(number: int) -> int:
        admitted = 0
        with Client(dsn) as client:
            for turn in range(12):
                try:
                    admitted += len(
                        client.enqueue_many([untyped_request("a")] * (1 + (number + turn) % 3))
                    )
                except QueueFull:
                    assert 50 - sum(d.pending for d in store_depths[number].depth()) < 3
        return admitted

    from rowlease.store import open_store

    store_depths = [open_store(dsn) for _ in range(8)]
    try:
        with ThreadPoolExecutor(8) as pool:
            admitted = sum(pool.map(produce, range(8)))
    finally:
        for other in store_depths:
            other.close()
    assert (
        admitted == len(store.rows("queue", "request_id")) == sum(d.pending for d in store.depth())
    )
    assert 48 <= admitted <= 50
