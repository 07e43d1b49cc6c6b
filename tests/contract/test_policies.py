"""Policies: what `weighted` and `aging` make of the order, and what that costs."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest
from rowlease.model import Failure, LeasedRequest
from tests.contract.sessions import Clock, Session
from tests.contract.test_3_order import ids

#: How far a share may be from its weight, in 10,000 claims.
TWO_POINTS = 0.02
DEFAULT_WEIGHTS = {str(priority): priority + 1 for priority in range(10)}


def shares(store: Session, batch: int, claims: int) -> dict[str, float]:
    """Which part of the claims went to each priority; what was claimed is gone."""
    counts: Counter[str] = Counter()
    floor = None
    while (total := counts.total()) < claims:
        claim = store.dequeue("one", ["default"], min(batch, claims - total), floor=floor)
        floor = claim.floor
        assert len(claim.requests) == min(batch, claims - total)
        counts.update(str(request.priority) for request in claim.requests)
    return {priority: count / claims for priority, count in counts.items()}


def expected(weights: dict[str, int]) -> dict[str, float]:
    return {priority: weight / sum(weights.values()) for priority, weight in weights.items()}


def configured(store: Session, weights: dict[str, int] | None, priorities: str) -> None:
    store.configure_queue("default", policy="weighted", policy_weights=weights)
    # More of each priority than its share of 10,000, so that none is ever empty.
    store.execute("set synchronous_commit = off")
    store.fill(
        9_000 * len(priorities),
        priority=f"('{{{','.join(priorities)}}}'::int[])[1 + i %% {len(priorities)}]",
    )


@pytest.mark.parametrize("batch", [10, 100])
@pytest.mark.parametrize(
    ("weights", "priorities"),
    [
        pytest.param(None, "0123456789", id="default weights"),
        pytest.param(None, "159", id="default weights, some priorities empty"),
        pytest.param({"9": 70, "5": 20, "0": 10}, "059", id="given weights"),
        pytest.param({"9": 70, "5": 20, "0": 10}, "05", id="given weights, one empty"),
    ],
)
def test_shares_are_within_two_points_of_the_weights(
    store: Session, batch: int, weights: dict[str, int] | None, priorities: str
) -> None:
    configured(store, weights, priorities)
    wanted = expected({p: (weights or DEFAULT_WEIGHTS)[p] for p in priorities})
    got = shares(store, batch, 10_000)
    assert got.keys() == wanted.keys()
    for priority, share in wanted.items():
        assert got[priority] == pytest.approx(share, abs=TWO_POINTS)


def test_shares_are_within_two_points_where_claims_are_one_by_one(store: Session) -> None:
    configured(store, {"9": 60, "5": 30, "0": 10}, "059")
    got = shares(store, 1, 10_000)
    assert got == {
        "9": pytest.approx(0.6, abs=TWO_POINTS),
        "5": pytest.approx(0.3, abs=TWO_POINTS),
        "0": pytest.approx(0.1, abs=TWO_POINTS),
    }


@pytest.mark.parametrize("policy", ["strict", "weighted", "aging"])
def test_no_slot_stays_empty_while_requests_wait(store: Session, policy: str) -> None:
    store.configure_queue("default", policy=policy)
    for priority, count in ((9, 1), (4, 2), (0, 20)):
        store.put(count, priority=priority)
    assert len(store.take(limit=15)) == 15
    assert len(store.take(limit=15)) == 8


@pytest.mark.parametrize("policy", ["weighted", "aging"])
def test_inside_a_priority_the_order_stays(store: Session, clock: Clock, policy: str) -> None:
    store.configure_queue("default", policy=policy)
    for _ in range(10):
        store.put(2, priority=1)
        store.put(2, priority=2)
        clock.advance(seconds=1)
    taken = [request for _ in range(8) for request in store.take(limit=5)]
    for priority in (1, 2):
        own = ids([request for request in taken if request.priority == priority])
        assert len(own) == 20
        assert own == sorted(own)


def test_a_priority_of_weight_0_gets_what_the_others_leave(store: Session) -> None:
    store.configure_queue("default", policy="weighted", policy_weights={"9": 1, "0": 0})
    store.put(5, priority=9)
    store.put(5, priority=0)
    assert [request.priority for request in store.take(limit=8)] == [9] * 5 + [0] * 3


def test_weights_of_0_only_leave_the_strict_order(store: Session) -> None:
    store.configure_queue("default", policy="weighted", policy_weights={"9": 0, "0": 0})
    store.put(2, priority=0)
    store.put(2, priority=9)
    assert [request.priority for request in store.take(limit=4)] == [9, 9, 0, 0]


def test_a_policy_nobody_knows_is_refused(store: Session) -> None:
    with pytest.raises(InvalidRequest, match="queue_settings_policy"):
        store.configure_queue("default", policy="fair")


# -- aging -------------------------------------------------------------------------------------


def flooded(store: Session, clock: Clock, per_second: int) -> list[LeasedRequest]:
    """One second of a flood of urgent requests; five of those that wait are worked off."""
    store.put(per_second, priority=9)
    taken = store.take(limit=5)
    store.complete(taken)
    clock.advance(seconds=1)
    return taken


def test_under_a_permanent_flood_the_oldest_low_request_starts_within_its_bound(
    store: Session, clock: Clock
) -> None:
    """The flood is as fast as the worker: with `strict` it would never start."""
    store.configure_queue("default", policy="aging", policy_aging_seconds=4)
    store.put(5, priority=9)
    (low,) = store.put(priority=0)
    bound = 9 * 4
    for second in range(bound + 2):
        if low in ids(flooded(store, clock, 5)):
            assert bound - 2 <= second <= bound + 1
            return
    pytest.fail(f"it has not started within {bound} s")


def test_a_growing_flood_holds_a_low_request_back_only_by_what_was_there_before_its_bound(
    store: Session, clock: Clock
) -> None:
    """Twice as much comes as goes. Whoever came later than the bound goes after the low one."""
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


def test_each_aging_period_of_waiting_counts_as_one_priority(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=10)
    low = store.put(priority=3)
    clock.advance(seconds=19.999)
    high = store.put(priority=5)
    assert ids(store.take(limit=1)) == high
    store.abandon(store.dequeue("two", ["default"], 9).requests[:0])
    clock.advance(seconds=0.001)
    later = store.put(priority=5)
    clock.advance(seconds=0.001)
    latest = store.put(priority=5)
    taken = [ids(store.take(limit=1)) for _ in range(3)]
    assert taken.index(low) < taken.index(latest)
    assert taken.index(later) < taken.index(latest)


def test_aging_takes_from_several_priorities_in_one_claim(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    store.put(2, priority=0)
    clock.advance(seconds=20)
    store.put(2, priority=9)
    clock.advance(seconds=20)
    store.put(2, priority=9)
    taken = store.take(limit=5)
    assert sorted(request.priority for request in taken) == [0, 0, 9, 9, 9]
    assert [request.priority for request in taken][:2] == [0, 0]


def test_a_returned_request_keeps_its_age(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    (low,) = store.put(priority=0)
    leased = store.take()
    clock.advance(seconds=10)
    store.put(3, priority=9)
    store.abandon(leased)
    assert ids(store.take()) == [low]


def test_a_retry_ages_from_the_time_it_is_due(store: Session, clock: Clock) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=1)
    store.put(priority=0)
    leased = store.take()
    clock.advance(seconds=10)
    store.fail(leased, [Failure("x", after=timedelta(seconds=1))])
    clock.advance(seconds=1)
    (high,) = store.put(priority=9)
    assert ids(store.take()) == [high]


# -- what it costs -----------------------------------------------------------------------------


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
            cost = store.measured(
                lambda floor=floor: store.dequeue("one", ["default"], batch, floor=floor)
            )  # type: ignore[misc]
            assert len(cost.value.requests) == batch
            floor = cost.value.floor
            costs.append(cost)
        assert not any(cost.full_scans.get("queue") for cost in costs)
        pages[name] = sum(cost.total for cost in costs) // len(costs)
    assert pages[policy] <= 2 * pages["strict"], pages
