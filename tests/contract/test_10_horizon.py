"""Promise 10, the horizon: a transaction that was left open does not slow claims down.

As in test_10_speed nothing is timed but pages are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import pytest

from rowlease.model import LeasedRequest
from tests.contract.sessions import Clock, PostgresSession, Session
from tests.contract.test_3_order import dear, ids
from tests.contract.test_10_speed import CLAIM_OF_TEN, claim_of_ten

pytestmark = [
    pytest.mark.new_database,
    pytest.mark.only_on(
        "postgresql",
        why="old row versions of an open snapshot are PostgreSQL's, and so are the counts of pages",
    ),
]

#: What a claim reads first.
LOOK = "select * from rowlease_internal.look('default', rowlease.now())"
Another = Callable[[], Session]


def finish(store: Session, count: int, lease: timedelta, floor: str | None = None) -> str | None:
    """Claim and finish so many, a hundred at a time."""
    for _ in range(count // 100):
        claim = store.dequeue("one", ["default"], 100, lease=lease, floor=floor)
        assert len(claim.requests) == 100
        store.complete(claim.requests)
        floor = claim.floor
    return floor


def hold(another: Another) -> Session:
    """A report that looks at the database as it is now, and takes its time."""
    report = another()
    report.execute("begin isolation level repeatable read")
    report.execute("select count(*) from rowlease.worker")
    return report


class Worn(NamedTuple):
    """A queue under an old snapshot, and the floor of a worker that has finished 6,000 since.

    A third of them had been scheduled; the leases of all of them would have run out meanwhile. The
    first of all is still leased.
    """

    store: Session
    floor: str | None
    first: LeasedRequest


@pytest.fixture
def worn(store: Session, another: Another, clock: Clock) -> Worn:
    store.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
    store.execute("set synchronous_commit = off")
    store.fill(4_001, priority="i % 10", due_time="rowlease.now() - interval '1 s'")
    store.fill(
        2_000,
        priority="3",
        status="'Scheduled'",
        due_time="rowlease.now() + i * interval '1 ms'",
    )
    hold(another)
    clock.advance(seconds=3)
    (first,) = store.claim(lease=timedelta(hours=1))
    floor = finish(store, 6_000, timedelta(seconds=2))
    store.fill(3_000, priority="i % 10")
    clock.advance(seconds=3)
    return Worn(store, floor, first)


def test_under_an_old_snapshot_a_claim_costs_the_same_as_on_a_fresh_queue(
    worn: Worn, another: Another, clock: Clock
) -> None:
    store, floor, _ = worn
    floor = claim_of_ten(store, floor).value.floor
    cost = claim_of_ten(store, floor)
    assert cost.total <= CLAIM_OF_TEN, cost.pages
    without = claim_of_ten(store, None)
    assert without.total > 2 * cost.total, "there is nothing here for a floor to save"


def test_a_new_connection_reads_what_an_old_snapshot_keeps_once(worn: Worn) -> None:
    store, _, _ = worn
    look = store.measured(lambda: store.execute(LOOK))
    first = claim_of_ten(store, None)
    assert first.value.floor is not None
    second = claim_of_ten(store, first.value.floor)

    assert first.total <= look.total + 2 * CLAIM_OF_TEN, first.pages
    assert second.total <= CLAIM_OF_TEN, second.pages


def test_the_first_floor_hides_nothing_that_waits(worn: Worn) -> None:
    store, _, _ = worn
    waiting = store.rows("queue", "status").count(("Pending",))
    claim = store.dequeue("new", ["default"], 10)
    assert {request.priority for request in claim.requests} == {9}
    found = len(claim.requests)
    while claim.requests:
        claim = store.dequeue("new", ["default"], 1_000, floor=claim.floor)
        found += len(claim.requests)
    assert found == waiting


def test_the_first_floor_hides_nothing_that_is_due(
    store: Session, another: Another, clock: Clock
) -> None:
    store.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
    store.fill(6_000)
    hold(another)
    clock.advance(seconds=1)
    finish(store, 6_000, timedelta(hours=1))
    (due,) = store.put(delay=timedelta(seconds=1))
    clock.advance(seconds=2)
    claim = store.dequeue("new", ["default"], 10)
    assert [request.request_id for request in claim.requests] == [due]


def test_the_first_floor_hides_nothing_that_comes(worn: Worn) -> None:
    store, _, _ = worn
    store.execute("update rowlease.queue set priority = 3 where status = 'Pending'")
    claim = store.dequeue("new", ["default"], 10)
    assert claim.floor is not None
    (urgent,) = store.put(priority=9)
    claim = store.dequeue("new", ["default"], 1, floor=claim.floor)
    assert [request.request_id for request in claim.requests] == [urgent]


def test_a_floor_that_is_dropped_each_second_does_not_pay_for_all_that_was_finished(
    worn: Worn, clock: Clock
) -> None:
    """Ranges that are proven empty are not read again; recently finished ones are."""
    store, floor, _ = worn
    for _ in range(3):
        floor = claim_of_ten(store, dear(floor)).value.floor
        store.others_have_ended()
        clock.advance(seconds=1.001)
    cost = claim_of_ten(store, dear(floor))
    assert cost.total <= CLAIM_OF_TEN + 200, cost.pages


def test_who_finds_nothing_under_an_old_snapshot_reads_few_pages(
    store: Session, another: Another, clock: Clock
) -> None:
    """Also where the leases of what was finished would run out in the future."""
    store.fill(3_000)
    hold(another)
    clock.advance(seconds=1)
    floor = finish(store, 3_000, timedelta(seconds=60))
    store.put()
    store.claim(lease=timedelta(seconds=90))
    floor = store.dequeue("one", ["default"], 10, floor=floor).floor
    cost = store.measured(lambda: store.dequeue("one", ["default"], 10, floor=floor))
    assert cost.value.wait == timedelta(seconds=90)
    assert cost.total <= 100, cost.pages


def test_a_floor_comes_into_force_under_an_old_snapshot_and_ends_with_it(
    store: Session, another: Another, clock: Clock
) -> None:
    store.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
    store.fill(4_000)
    report = hold(another)
    clock.advance(seconds=1)
    assert store.dequeue("one", ["default"], 100, lease=timedelta(seconds=60)).floor is None
    floor = finish(store, 3_900, timedelta(seconds=60))
    assert floor is not None
    report.rollback()
    for _ in range(2):  # the first look everywhere marks what nobody sees any more
        clock.advance(seconds=1.001)
        floor = store.dequeue("one", ["default"], 100, floor=floor).floor
    assert floor is None


def test_under_an_old_snapshot_claims_from_the_lane_cost_the_same(
    store: PostgresSession, another: Another, clock: Clock
) -> None:
    store.execute("alter table rowlease.lane set (autovacuum_enabled = false)")
    store.execute("alter table rowlease.queue set (autovacuum_enabled = false)")
    run = store.begun("x")
    store.lay("x", run, [{"kind": "a"}] * 12_000)
    store.promote("x", run, 12_000)
    fresh = claim_of_ten(store, None)
    hold(another)
    finish(store, 10_000, timedelta(seconds=60))
    worn = claim_of_ten(store, None)
    assert worn.total <= fresh.total + 100, worn.pages
    store.execute("update rowlease.lane_part set first_id = 0")
    without = claim_of_ten(store, None)
    assert without.total > 2 * worn.total, "there is nothing here for a floor to save"


@pytest.mark.parametrize("max_in_flight", [None, 10_000])
def test_a_floor_that_is_in_force_does_not_empty_the_lane_into_the_queue(
    store: PostgresSession, another: Another, clock: Clock, max_in_flight: int | None
) -> None:
    """What is brought into queue leaves index entries there, and later claims read them."""
    for table in ("lane", "queue"):
        store.execute(f"alter table rowlease.{table} set (autovacuum_enabled = false)")
    store.execute("set synchronous_commit = off")
    store.configure_queue("default", max_in_flight=max_in_flight)
    run = store.begun("x")
    for part in (0, 1):
        store.lay("x", run, [{"kind": "a", "priority": n % 2} for n in range(8_000)], part << 16)
    store.promote("x", run, 16_000)
    hold(another)
    floor = finish(store, 6_000, timedelta(seconds=2))
    clock.advance(seconds=3)
    floor = finish(store, 6_000, timedelta(seconds=2), floor)
    assert floor is not None
    assert store.rows("queue", "request_id", status="Pending") == []
    worn = claim_of_ten(store, floor)
    assert worn.total <= CLAIM_OF_TEN, (worn.total, worn.pages)


@pytest.mark.parametrize("max_in_flight", [None, 10_000])
def test_blocks_of_the_lane_that_are_used_up_are_not_read_again(
    store: PostgresSession, another: Another, max_in_flight: int | None
) -> None:
    """Each of them has fewer entries than a claim may step over, but there are many."""
    store.execute("alter table rowlease.lane set (autovacuum_enabled = false)")
    store.configure_queue("default", max_in_flight=max_in_flight, max_priority=29)
    run = store.begun("x")
    store.lay("x", run, [{"kind": "a", "priority": n // 50} for n in range(1500)])
    store.promote("x", run, 1500)
    hold(another)
    for _ in range(29):
        claim = store.dequeue("one", ["default"], 51)
        assert len(claim.requests) == 51
        store.complete(claim.requests)
    cost = store.measured(lambda: store.dequeue("one", ["default"], 10))
    assert len(cost.value.requests) == 10
    pages = cost.pages["lane_part_pkey"] + cost.pages["lane_pkey"]
    assert pages <= (60 if max_in_flight else 20), cost.pages
    assert len(store.rows("lane_part", "priority")) <= (10 if max_in_flight else 1)


@pytest.mark.parametrize("max_in_flight", [None, 10_000])
def test_small_parts_of_the_lane_that_are_used_up_are_not_read_again(
    store: PostgresSession, max_in_flight: int | None
) -> None:
    store.configure_queue("default", max_in_flight=max_in_flight)
    run = store.begun("x")
    for part in range(200):
        store.lay("x", run, [{"kind": "a"}], part)
    store.promote("x", run, 200)
    for _ in range(15):
        assert len(store.dequeue("one", ["default"], 10).requests) == 10
    assert len(store.rows("lane_part", "part")) <= 80


def test_looking_everywhere_is_put_off_where_it_takes_long(store: Session, clock: Clock) -> None:
    """The server's own time counts here, which no test can freeze: so it is made to take long."""
    store.execute(
        "create or replace function rowlease_internal.next_event("
        "  p_queue_name text, p_from timestamptz, p_until timestamptz) returns timestamptz"
        " language plpgsql volatile as 'begin perform pg_sleep(0.06); return null; end'"
    )
    store.keep_floors()
    floor: str | None = "{}"
    for _ in range(3):
        floor = store.dequeue("one", ["default"], 1, floor=floor).floor
        store.others_have_ended()
        clock.advance(seconds=1.001)
    moved = store.put()
    (late,) = moved
    store.forge("queue", late, due_time=clock.now - timedelta(hours=1))
    found = []
    for _ in range(8):
        claim = store.dequeue("one", ["default"], 1, floor=floor)
        floor = claim.floor
        found.append(ids(claim.requests))
        clock.advance(seconds=1.001)
    assert found[0] == []
    assert moved in found


def test_a_returned_request_does_not_pull_the_floor_down(worn: Worn) -> None:
    """Its place is far below the floor, and it alone is taken from there."""
    store, floor, first = worn
    floor = claim_of_ten(store, floor).value.floor
    before = claim_of_ten(store, floor)
    store.abandon([first])
    claim = store.dequeue("one", ["default"], 1, floor=before.value.floor)
    assert ids(claim.requests) == [first.request_id]
    after = claim_of_ten(store, claim.floor)
    assert after.total <= before.total + 20, after.pages
