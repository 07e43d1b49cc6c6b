"""Policies: what `weighted` and `aging` make of the order, and what that costs."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from rowlease.errors import InvalidRequest
from rowlease.model import Failure, LeasedRequest
from tests.contract.sessions import Clock, Session
from tests.contract.test_3_order import ids

#: How far a share may be from its weight, in 10,000 claims.
TWO_POINTS = 0.02
DEFAULT_WEIGHTS = list(range(1, 11))
GIVEN_WEIGHTS = [10, 0, 0, 0, 0, 20, 0, 0, 0, 70]


def waiting(store: Session, weights: list[int] | None, priorities: tuple[int, ...]) -> None:
    """More of each priority than its share of 10,000, so that none is ever empty."""
    store.configure_queue("default", policy="weighted", policy_weights=weights)
    known = weights or DEFAULT_WEIGHTS
    total = sum(known[priority] for priority in priorities)
    for priority in priorities:
        store.fill(10_000 * known[priority] // total + 500, priority=str(priority))


def shares(store: Session) -> dict[int, float]:
    """The share of each priority in the leased requests."""
    counts = Counter(p for p, _ in store.rows("queue", "priority", "request_id", locked_by="one"))
    assert counts.total() == 10_000
    return {priority: count / 10_000 for priority, count in counts.items()}


def expected(weights: list[int], priorities: tuple[int, ...]) -> dict[int, Any]:
    total = sum(weights[priority] for priority in priorities)
    return {p: pytest.approx(weights[p] / total, abs=TWO_POINTS) for p in priorities}


@pytest.mark.parametrize(
    ("weights", "priorities", "batch"),
    [
        pytest.param(None, tuple(range(10)), 10, id="default weights"),
        pytest.param(None, tuple(range(10)), 100, id="default weights, large claims"),
        pytest.param(None, (1, 5, 9), 100, id="default weights, some priorities empty"),
        pytest.param(GIVEN_WEIGHTS, (0, 5, 9), 10, id="given weights"),
        pytest.param(GIVEN_WEIGHTS, (0, 5), 100, id="given weights, one empty"),
    ],
)
def test_shares_are_within_two_points_of_the_weights(
    store: Session, weights: list[int] | None, priorities: tuple[int, ...], batch: int
) -> None:
    waiting(store, weights, priorities)
    floor = None
    for _ in range(10_000 // batch):
        claim = store.dequeue("one", ["default"], batch, floor=floor)
        assert len(claim.requests) == batch
        floor = claim.floor
    assert shares(store) == expected(weights or DEFAULT_WEIGHTS, priorities)


def test_shares_are_within_two_points_where_claims_are_one_by_one(store: Session) -> None:
    waiting(store, GIVEN_WEIGHTS, (0, 5, 9))
    store.claim_one_by_one("one", 10_000)
    assert shares(store) == expected(GIVEN_WEIGHTS, (0, 5, 9))


def test_shares_hold_where_a_priority_is_empty_again_and_again(store: Session) -> None:
    """Believing that there is more, or that there is none, must not cost the others their share."""
    waiting(store, DEFAULT_WEIGHTS, (0, 3))
    floor = None
    for _ in range(1000):
        store.put(priority=9)
        claim = store.dequeue("one", ["default"], 10, floor=floor)
        floor = claim.floor
        assert len(claim.requests) == 10
    counts = shares(store)
    assert counts.pop(9) == pytest.approx(0.1, abs=TWO_POINTS)
    assert counts == {
        0: pytest.approx(0.9 * 1 / 5, abs=TWO_POINTS),
        3: pytest.approx(0.9 * 4 / 5, abs=TWO_POINTS),
    }


@pytest.mark.parametrize("policy", ["strict", "weighted", "aging"])
def test_no_slot_stays_empty_while_requests_wait(store: Session, clock: Clock, policy: str) -> None:
    store.configure_queue("default", policy=policy)
    for priority, count in ((9, 1), (4, 2), (0, 20)):
        store.put(count, priority=priority)
    clock.advance(seconds=1)
    assert len(store.claim(limit=15)) == 15
    assert len(store.claim(limit=15)) == 8


@pytest.mark.parametrize("policy", ["weighted", "aging"])
def test_inside_a_priority_the_order_stays(store: Session, clock: Clock, policy: str) -> None:
    store.configure_queue("default", policy=policy)
    for _ in range(10):
        store.put(2, priority=1)
        store.put(2, priority=2)
        clock.advance(seconds=1)
    taken = [request for _ in range(8) for request in store.claim(limit=5)]
    for priority in (1, 2):
        own = ids([request for request in taken if request.priority == priority])
        assert len(own) == 20
        assert own == sorted(own)


def test_a_priority_of_weight_0_gets_what_the_others_leave(store: Session) -> None:
    store.configure_queue("default", policy="weighted", policy_weights=[0] * 9 + [1])
    store.put(5, priority=9)
    store.put(5, priority=0)
    assert [request.priority for request in store.claim(limit=8)] == [9] * 5 + [0] * 3


def test_weights_of_0_only_leave_the_strict_order(store: Session) -> None:
    store.configure_queue("default", policy="weighted", policy_weights=[0] * 10)
    store.put(2, priority=0)
    store.put(2, priority=9)
    assert [request.priority for request in store.claim(limit=4)] == [9, 9, 0, 0]


@pytest.mark.parametrize("weights", [{"9": 1}, [1, "x"], [1, -1], 7, [None], "[1]"])
def test_weights_that_are_no_array_of_numbers_are_refused(store: Session, weights: Any) -> None:
    with pytest.raises(
        InvalidRequest, match="policy_weights must be an array of non-negative numbers"
    ):
        store.configure_queue("default", policy_weights=weights)


def test_an_unknown_policy_is_refused(store: Session) -> None:
    with pytest.raises(InvalidRequest, match="queue_settings_policy"):
        store.configure_queue("default", policy="fair")


# -- aging -------------------------------------------------------------------------------------


def flooded(store: Session, clock: Clock, per_second: int) -> list[LeasedRequest]:
    """One second of a flood of urgent requests; five of those that wait are worked off."""
    store.put(per_second, priority=9)
    taken = store.claim(limit=5)
    store.complete(taken)
    clock.advance(seconds=1)
    return taken


def test_under_a_permanent_flood_the_oldest_low_request_starts_within_its_bound(
    store: Session, clock: Clock
) -> None:
    """The flood is as fast as the worker: with `strict` it would never start."""
    store.configure_queue("default", policy="aging", policy_aging_seconds=4)
    bound = 9 * 4
    store.put(5, priority=9)
    (low,) = store.put(priority=0)
    started = next((second for second in range(100) if low in ids(flooded(store, clock, 5))), None)
    # Those ahead of it came at most `bound` after it, and wait for a second or two themselves.
    assert started is not None
    assert bound <= started <= bound + 2


def test_a_growing_flood_holds_a_low_request_back_only_by_what_was_there_before_its_bound(
    store: Session, clock: Clock
) -> None:
    """Twice as many requests come as go. Those that came after the bound go after the low one."""
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    born = clock.now
    (low,) = store.put(priority=0)
    for _ in range(60):
        taken = flooded(store, clock, 10)
        if low in ids(taken):
            return
        assert all(request.due_time <= born + timedelta(seconds=9) for request in taken)
    pytest.fail("it has not started")


def test_under_strict_the_same_request_starves(store: Session, clock: Clock) -> None:
    """What the two tests above are there to prevent."""
    (low,) = store.put(priority=0)
    store.put(5, priority=9)
    for _ in range(60):
        assert low not in ids(flooded(store, clock, 5))


@pytest.mark.parametrize(("waited", "first"), [(19.999, 5), (20, 5), (20.001, 3)])
def test_each_aging_period_of_waiting_counts_as_one_priority(
    store: Session, clock: Clock, waited: float, first: int
) -> None:
    """Two priorities lower make up for it in two periods; equal ones go by priority."""
    store.configure_queue("default", policy="aging", policy_aging_seconds=10)
    store.put(priority=3)
    clock.advance(seconds=waited)
    store.put(priority=5)
    assert [request.priority for request in store.claim()] == [first]


def test_aging_takes_from_several_priorities_in_one_claim(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    store.put(2, priority=0)
    clock.advance(seconds=20)
    store.put(2, priority=9)
    clock.advance(seconds=20)
    store.put(2, priority=9)
    taken = store.claim(limit=5)
    assert sorted(request.priority for request in taken) == [0, 0, 9, 9, 9]
    assert [request.priority for request in taken][:2] == [0, 0]


def test_a_returned_request_keeps_its_age(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    (low,) = store.put(priority=0)
    leased = store.claim()
    clock.advance(seconds=10)
    store.put(3, priority=9)
    store.abandon(leased)
    assert ids(store.claim()) == [low]


def test_a_retry_ages_from_the_time_it_is_due(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    store.put(priority=0)
    leased = store.claim()
    clock.advance(seconds=10)
    store.fail(leased, [Failure("x", after=timedelta(seconds=1))])
    clock.advance(seconds=1)
    (high,) = store.put(priority=9)
    assert ids(store.claim()) == [high]


# -- what it costs -----------------------------------------------------------------------------


@pytest.mark.new_database
@pytest.mark.only_on("postgresql", why="its own statistics of pages say what a call costs")
@pytest.mark.parametrize("policy", ["weighted", "aging"])
@pytest.mark.parametrize("batch", [1, 10, 100])
def test_a_claim_costs_at_most_twice_what_it_costs_with_strict(
    store: Session, clock: Clock, policy: str, batch: int
) -> None:
    store.fill(50_000, priority="i % 10", due_time="rowlease.now() - i * interval '1 ms'")
    pages: dict[str, int] = {}
    for name in ("strict", policy):
        store.configure_queue("default", policy=name)
        floor = store.dequeue("one", ["default"], batch).floor
        costs = []
        for _ in range(5):
            cost = store.measured(partial(store.dequeue, "one", ["default"], batch, floor=floor))
            assert len(cost.value.requests) == batch
            floor = cost.value.floor
            costs.append(cost)
        assert not any(cost.full_scans.get("queue") for cost in costs)
        pages[name] = sum(cost.total for cost in costs) // len(costs)
    assert pages[policy] <= 2 * pages["strict"], pages
