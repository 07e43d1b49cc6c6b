"""Limits: never more in flight than a queue allows, and a pause takes effect within one claim."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from rowlease.model import Failure
from rowlease.store import open_store
from tests.contract.sessions import Clock, Session
from tests.contract.test_3_order import ids

Another = Callable[[], Session]


def in_flight(store: Session) -> int:
    return len(store.rows("queue", "request_id", status="Processing"))


def test_no_more_are_leased_than_the_queue_allows(store: Session) -> None:
    store.configure_queue("default", max_in_flight=3)
    store.put(10)
    assert len(store.claim(limit=2)) == 2
    assert len(store.claim(limit=2)) == 1
    assert store.claim(limit=2) == []


@pytest.mark.parametrize(
    "how", ["complete", "fail", "dead letter", "abandon", "expired", "requeue"]
)
def test_a_place_is_free_again_when_a_lease_has_ended(
    store: Session, clock: Clock, how: str
) -> None:
    store.configure_queue("default", max_in_flight=1)
    store.put(3)
    (leased,) = store.claim()
    assert store.claim() == []
    match how:
        case "complete":
            store.complete([leased])
        case "fail":
            store.fail([leased], [Failure("x")])
        case "dead letter" | "requeue":
            store.fail([leased], [Failure("x", dead=True)])
            if how == "requeue":
                store.requeue([leased.request_id])
        case "abandon":
            store.abandon([leased])
        case "expired":
            clock.advance(seconds=31)
    assert len(store.claim(limit=3)) == 1
    assert in_flight(store) == 1


def test_the_limit_is_of_one_queue(store: Session) -> None:
    store.configure_queue("other", max_in_flight=1)
    store.put(3, queue="other")
    store.put(3)
    taken = store.dequeue("one", ["other", "default"], 6).requests
    assert [request.queue_name for request in taken] == ["other"] + ["default"] * 3


def test_a_lower_limit_takes_nothing_away_and_holds_from_then_on(store: Session) -> None:
    store.put(5)
    leased = store.claim(limit=3)
    store.configure_queue("default", max_in_flight=2)
    assert store.claim() == []
    store.complete(leased[:2])
    assert len(store.claim(limit=5)) == 1


def test_a_claim_at_the_limit_waits_only_briefly(store: Session) -> None:
    """The worker whose request ends may not be the one that waits, and nothing notifies it."""
    store.configure_queue("default", max_in_flight=1)
    store.put(2)
    store.claim()
    claim = store.dequeue("two", ["default"], 1)
    assert (claim.requests, claim.more) == ([], False)
    assert claim.wait is not None
    assert claim.wait <= timedelta(seconds=0.5)


@pytest.mark.only_on("postgresql", why="elsewhere workers poll, so a claim is repeated anyway")
def test_a_claim_of_the_last_place_waits_only_briefly(store: Session) -> None:
    """It does not claim once more before it sleeps; another's request may end meanwhile."""
    store.configure_queue("default", max_in_flight=1)
    store.put(2)
    claim = store.dequeue("one", ["default"], 2)
    assert (len(claim.requests), claim.more) == (1, False)
    assert claim.wait is not None
    assert claim.wait <= timedelta(seconds=0.5)


def test_a_claim_of_a_limited_queue_waits_for_one_that_is_not_committed(
    store: Session, another: Another
) -> None:
    """It has to, or both would find the last place free."""
    store.configure_queue("default", max_in_flight=2)
    store.put(4)
    one = another()
    one.begin()
    assert len(one.claim("one", limit=2)) == 2
    second = store.waiting(lambda: store.claim("two", limit=2))
    one.commit()
    assert second.result() == []


def test_a_lease_does_not_run_while_its_claim_waits(
    store: Session, another: Another, clock: Clock
) -> None:
    store.configure_queue("default", max_in_flight=2)
    store.put(4)
    one, two = another(), another()
    one.begin()
    one.claim("one")
    two.freeze(None)
    second = two.waiting(lambda: two.claim("two"))
    store.freeze(None)
    before = store.now()
    one.commit()
    assert second.result()[0].locked_time > before


def test_unlimited_queues_do_not_wait_for_limited_ones(store: Session, another: Another) -> None:
    store.configure_queue("limited", max_in_flight=1)
    store.put(2, queue="limited")
    (free,) = store.put()
    one = another()
    one.begin()
    one.dequeue("one", ["limited"], 1)
    call = store.in_background(lambda: store.claim("two"))
    assert store.passes(call)
    assert ids(call.result()) == [free]


def test_two_queues_asked_for_in_opposite_orders_never_deadlock(
    store: Session, another: Another
) -> None:
    for queue in ("a", "b"):
        store.configure_queue(queue, max_in_flight=5)
        store.put(10, queue=queue)
    one, two, three = another(), another(), another()
    one.begin()
    one.dequeue("one", ["a", "b"], 1)
    second = two.waiting(lambda: two.dequeue("two", ["b", "a"], 1))
    third = three.waiting(lambda: three.dequeue("three", ["a", "b"], 1))
    one.commit()
    assert len(second.result(30).requests) == len(third.result(30).requests) == 1


def test_of_eight_claimers_at_once_never_more_than_the_limit_hold_a_lease(
    dsn: str, store: Session
) -> None:
    """In two queues, asked for in both orders, by claims of several sizes."""
    store.freeze(None)
    for queue, limit in (("a", 5), ("b", 3)):
        store.configure_queue(queue, max_in_flight=limit)
        store.put(150, queue=queue)
    holding = {"a": 0, "b": 0}
    most = {"a": 0, "b": 0}
    guard = threading.Lock()

    def work(number: int) -> int:
        done = 0
        queues = ["a", "b"] if number % 2 else ["b", "a"]
        with closing(open_store(dsn)) as own:
            while own.depth():
                leased = own.dequeue(f"worker {number}", queues, 1 + number % 4).requests
                with guard:
                    for request in leased:
                        holding[request.queue_name] += 1
                    for queue in holding:
                        most[queue] = max(most[queue], holding[queue])
                with guard:  # before the place is given back
                    for request in leased:
                        holding[request.queue_name] -= 1
                own.complete(leased)
                done += len(leased)
        return done

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 300
    assert most["a"] <= 5
    assert most["b"] <= 3


# -- gates that others hold ------------------------------------------------------------------------


def test_a_role_that_may_only_connect_can_stop_no_queue(store: Session) -> None:
    store.configure_queue("default", max_in_flight=5, capacity=10)
    with store.squatting("default"):
        store.put(3)
        store.put(dedup_key="k", group_key="g")
        done, failed, *others = store.claim(limit=3)
        exchanged = store.exchange(
            "one", ["default"], 2, completed=[(done, None)], failed=[(failed, Failure("x"))]
        )
        assert (exchanged.completed, exchanged.failed) == (["ok"], ["ok"])
        assert len(exchanged.claim.requests) == 1
        assert store.abandon(others) == ["ok"]
        assert "counts folded" in [step.what for step in store.maintain()]


def test_a_gate_that_is_held_stops_its_own_queue_alone(store: Session, another: Another) -> None:
    """A claim waits for it for two seconds at most, and asks again soon."""
    for queue in ("a", "b"):
        store.configure_queue(queue, max_in_flight=5)
        store.put(2, queue=queue)
    store.put(2)
    (done,) = store.dequeue("one", ["a"], 1).requests
    dba = another()
    dba.begin()
    dba.hold_gate("a")
    exchanged = store.exchange("one", ["a", "b", "default"], 9, completed=[(done, None)])
    assert exchanged.completed == ["ok"]
    claim = exchanged.claim
    assert [r.queue_name for r in claim.requests] == ["b"] * 2 + ["default"] * 2
    assert (claim.more, claim.wait) == (False, timedelta(0))
    dba.rollback()
    assert len(store.dequeue("one", ["a"], 9).requests) == 1


def test_of_several_gates_that_are_held_only_one_is_waited_for(
    store: Session, another: Another
) -> None:
    queues = [f"queue {number}" for number in range(9)]
    dba = another()
    dba.begin()
    for queue in queues:
        store.configure_queue(queue, max_in_flight=1)
        dba.hold_gate(queue)
    before = time.monotonic()
    assert store.dequeue("one", queues, 1).requests == []
    assert time.monotonic() - before < 2 * len(queues)


@pytest.mark.only_on("postgresql", why="elsewhere a gate is no row")
def test_a_gate_whose_row_was_deleted_is_made_again(store: Session, another: Another) -> None:
    store.configure_queue("default", max_in_flight=1)
    store.put(2)
    store.execute("delete from rowlease.gate")
    one = another()
    one.begin()
    assert len(one.claim("one")) == 1
    second = store.waiting(lambda: store.claim("two"))
    one.commit()
    assert second.result() == []
    assert store.maintain() == []
    assert "counts folded" in [step.what for step in store.maintain()]
    assert store.rows("gate", "queue_name") == [("",), ("default",)]


# -- pause -------------------------------------------------------------------------------------


@pytest.mark.both_ways
def test_a_pause_takes_effect_with_the_next_claim(store: Session) -> None:
    store.put(4)
    leased = store.claim()
    store.pause("default")
    assert store.claim(limit=3) == []
    assert store.complete(leased) == ["ok"]
    store.put()
    store.resume("default")
    assert len(store.claim(limit=9)) == 4


def test_a_pause_is_of_one_queue(store: Session) -> None:
    store.configure_queue("other")
    store.put()
    store.put(queue="other")
    store.pause("other")
    taken = store.dequeue("one", ["other", "default"], 5).requests
    assert [request.queue_name for request in taken] == ["default"]


def test_a_floor_from_before_a_pause_hides_nothing_after_it(store: Session, clock: Clock) -> None:
    floor = store.dequeue("one", ["default"], 1).floor
    store.pause("default")
    requests = store.put(2)
    clock.advance(seconds=0.5)
    paused = store.dequeue("one", ["default"], 1, floor=floor)
    assert paused.requests == []
    store.resume("default")
    assert ids(store.claim(limit=2, floor=paused.floor)) == requests
