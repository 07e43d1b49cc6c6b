"""Promise 3: highest priority first, then due time and request id; no claim waits for another."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.model import Failure, LeasedRequest, NewRequest
from tests.contract.sessions import Clock, Session

pytestmark = pytest.mark.both_ways

Another = Callable[[], Session]

#: The example of RabbitMQ's documentation and of its clients' tests: what is sent to a queue whose
#: maximum is 5, and what is received. Source: rabbitmq.com/docs/priority.
SENT = [3, 6, 1, 7, 9, 16, 17, 21, 21, 22]
RECEIVED = [6, 7, 9, 16, 17, 21, 21, 22, 3, 1]


def ids(requests: list[LeasedRequest]) -> list[int]:
    return [request.request_id for request in requests]


def given(priority: int) -> str:
    """A payload with the priority that was asked for."""
    return f'{{"asked": {priority}}}'


def way_enqueue(store: Session, priorities: list[int]) -> None:
    for priority in priorities:
        store._call(
            "enqueue", p_queue_name="q", p_kind="a", p_priority=priority, p_payload=given(priority)
        )


def way_enqueue_many(store: Session, priorities: list[int]) -> None:
    store.enqueue_many(
        "q", [NewRequest(kind="a", payload=given(p), priority=p) for p in priorities]
    )


def way_inbox(store: Session, priorities: list[int]) -> None:
    for priority in priorities:
        store.insert("inbox", queue_name="q", kind="a", priority=priority, payload=given(priority))


def way_promote(store: Session, priorities: list[int]) -> None:
    promoted(store, [{"priority": priority} for priority in priorities])


def way_promote_groups(store: Session, priorities: list[int]) -> None:
    """Of one request each; but a load with groups moves by another statement than one with keys."""
    promoted(store, [{"priority": p, "group_key": str(n)} for n, p in enumerate(priorities)])


def way_promote_keys(store: Session, priorities: list[int]) -> None:
    promoted(store, [{"priority": p, "dedup_key": str(n)} for n, p in enumerate(priorities)])


def promoted(store: Session, rows: list[dict[str, Any]]) -> None:
    staged = [{"payload": given(row["priority"]), **row} for row in rows]
    store.promote("load", store.staged("load", staged, queue="q"), len(rows))


WAYS_IN = {
    "enqueue": way_enqueue,
    "enqueue_many": way_enqueue_many,
    "inbox": way_inbox,
    "promote": way_promote,
    "promote_groups": way_promote_groups,
    "promote_keys": way_promote_keys,
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("limit", [1, 3, 10])
def test_rabbitmqs_example_comes_out_as_published(store: Session, way: str, limit: int) -> None:
    store.configure_queue("q", max_priority=5)
    WAYS_IN[way](store, SENT)
    received: list[int] = []
    while taken := store.dequeue("one", ["q"], limit).requests:
        received += [json.loads(request.payload)["asked"] for request in taken]
    assert received == RECEIVED


@pytest.mark.parametrize("way", WAYS_IN)
def test_a_priority_above_the_queues_maximum_is_clamped(store: Session, way: str) -> None:
    store.configure_queue("q", max_priority=5)
    more = [] if way.startswith("promote") else [256, 32_767]  # a load's row cannot hold them
    WAYS_IN[way](store, [0, 5, 6, 255, *more])
    found = sorted(p for (p,) in store.rows("requests", "priority"))
    assert found == [0, 5, 5, 5, *[5 for _ in more]]


def test_the_default_priority_is_0(store: Session) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")])
    store.insert("inbox", kind="a")
    store.promote("load", store.staged("load", [{"dedup_key": "k"}]), 1)
    store._call("enqueue", p_queue_name="default", p_kind="a")
    assert store.rows("queue", "priority") == [(0,)] * 4


def test_equal_priorities_go_by_due_time_and_then_by_insert_order(
    store: Session, clock: Clock
) -> None:
    first, second = store.put(), store.put()
    late = store.put(delay=timedelta(seconds=3))
    early = store.put(delay=timedelta(seconds=2))
    clock.advance(seconds=3)
    last = store.put()
    assert ids(store.claim(limit=5)) == [*first, *second, *early, *late, *last]


def test_insert_order_counts_and_not_commit_order(store: Session, another: Another) -> None:
    slow = another()
    slow.begin()
    (first,) = slow.put()
    (second,) = store.put()
    slow.commit()
    assert ids(store.claim(limit=2)) == [first, second]


def test_a_claim_is_answered_in_claim_order(store: Session, clock: Clock) -> None:
    draw = random.Random(3)
    for _ in range(20):
        store.enqueue_many(
            "default", [NewRequest(kind="a", priority=draw.randrange(10)) for _ in range(10)]
        )
        clock.advance(seconds=1)
    taken = store.claim(limit=200)
    assert len(taken) == 200
    assert taken == sorted(taken, key=lambda r: (-r.priority, r.due_time, r.request_id))


def test_queues_are_emptied_in_the_order_given(store: Session) -> None:
    store.configure_queue("first")
    store.configure_queue("second")
    store.put(2, "second", priority=9)
    store.put(2, "first", priority=0)
    taken = store.dequeue("one", ["first", "second"], 3).requests
    assert [request.queue_name for request in taken] == ["first", "first", "second"]


def test_lowering_the_maximum_lowers_waiting_requests(store: Session) -> None:
    high, low, mid = store.put(priority=9), store.put(priority=2), store.put(priority=5)
    store.configure_queue("default", max_priority=3)
    assert store.depth() == store.counted()
    assert ids(store.claim(limit=3)) == [*high, *mid, *low]


def test_lowering_the_maximum_lowers_requests_below_a_floor(
    store: Session, another: Another, clock: Clock
) -> None:
    slow = another()
    slow.begin()
    (high,) = slow.put(priority=9)
    clock.advance(seconds=5)
    store.put(2, priority=3)
    clock.advance(seconds=5)
    claim = store.dequeue("one", ["default"], 1)
    slow.commit()
    store.configure_queue("default", max_priority=3)
    assert ids(store.claim(limit=1, floor=claim.floor)) == [high]


@pytest.mark.new_database
def test_lowering_the_maximum_keeps_returned_requests_claimable(
    store: Session, clock: Clock
) -> None:
    store.keep_floors()
    (high,) = store.put(priority=9)
    (leased,) = store.claim()
    floor = store.dequeue("one", ["default"], 1).floor
    clock.advance(seconds=2)
    floor = store.dequeue("one", ["default"], 1, floor=floor).floor  # nothing waits below it
    store.abandon([leased])
    store.configure_queue("default", max_priority=3)
    assert ids(store.claim(limit=1, floor=floor)) == [high]


def test_an_enqueue_committed_after_the_maximum_was_lowered_is_not_lost(
    store: Session, another: Another, clock: Clock
) -> None:
    slow = another()
    slow.begin()
    (late,) = slow.put(priority=9)
    store.configure_queue("default", max_priority=3)
    floor = store.dequeue("one", ["default"], 1).floor
    slow.commit()
    clock.advance(seconds=1.001)
    claim = store.dequeue("one", ["default"], 1, floor=floor)
    assert [(r.request_id, r.priority) for r in claim.requests] == [(late, 3)]
    assert store.depth() == store.counted()


# -- no waiting --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2])
def test_a_claim_does_not_wait_behind_another(store: Session, another: Another, limit: int) -> None:
    requests = store.put(6)
    slow, quick = another(), another()
    slow.begin()
    assert ids(slow.claim("slow", limit=limit)) == requests[:limit]
    call = quick.in_background(lambda: quick.claim("quick", limit=limit))
    assert quick.passes(call), "the claim waits for another's"
    assert ids(call.result()) == requests[limit : 2 * limit]
    slow.rollback()
    assert ids(store.claim("third", limit=6)) == requests[:limit] + requests[2 * limit :]


def test_a_claim_does_not_wait_for_requests_that_are_being_moved(
    store: Session, another: Another, clock: Clock
) -> None:
    """Expired leases and due requests are skipped, too, while another session has locked them."""
    expiring = store.put(2)
    store.claim(limit=2)
    due = store.put(2, delay=timedelta(seconds=30))
    clock.advance(seconds=31)
    (waiting,) = store.put()
    slow, quick = another(), another()
    slow.begin()
    assert ids(slow.claim("slow", limit=4)) == [*expiring, *due]
    call = quick.in_background(lambda: quick.claim("quick", limit=4))
    assert quick.passes(call), "the claim waits for another's"
    assert ids(call.result()) == [waiting]
    slow.rollback()


@pytest.mark.parametrize("limit", [1, 2])
def test_claims_one_after_another_go_by_due_time(store: Session, clock: Clock, limit: int) -> None:
    """The first of them moves all that is due; the others find it moved."""
    requests = [store.put(delay=timedelta(seconds=delay))[0] for delay in (10, 7, 5)]
    clock.advance(seconds=20)
    found = ids(store.claim())
    while len(found) < len(requests):
        found += ids(store.claim(limit=limit))
    assert found == requests[::-1]


# -- floors change nothing but the cost --------------------------------------------------------


FLOORS = pytest.mark.only_on(
    "postgresql", why="there alone are floors kept, below which something may be passed over"
)


def below_a_floor(store: Session, clock: Clock) -> str:
    """A floor that has passed everything up to now, in every priority."""
    store.keep_floors()
    clock.advance(seconds=10)
    (urgent,) = store.put(priority=9)
    claim = store.dequeue("one", ["default"], 2, floor="{}")
    assert ids(claim.requests)[0] == urgent
    assert claim.floor is not None
    return claim.floor


@FLOORS
@pytest.mark.new_database
def test_requests_that_are_due_at_one_moment_are_not_passed_over(
    store: Session, clock: Clock
) -> None:
    """A claim moves some of them, in the order of the index and not of their ids."""
    store.keep_floors()
    requests = store.put(80, delay=timedelta(hours=1))
    for some in (requests[40:], requests[:40]):
        store.operate("reschedule", arguments={"delay_ms": 10_000}, ids=some)
    clock.advance(seconds=20)
    floor, claimed = "{}", list[int]()
    for _ in range(len(requests) // 4 + 5):
        claim = store.dequeue("one", ["default"], 5, floor=floor)
        floor = claim.floor or floor
        claimed += ids(claim.requests)
    assert sorted(claimed) == requests


@FLOORS
@pytest.mark.new_database
def test_a_new_floor_does_not_pass_what_its_claim_moves(store: Session, clock: Clock) -> None:
    store.keep_floors()
    requests = store.put(40, delay=timedelta(hours=1))
    for some in (requests[20:], requests[:20]):
        store.operate("reschedule", arguments={"delay_ms": 10_000}, ids=some)
    clock.advance(seconds=20)
    first = store.dequeue("one", ["default"], 5, floor="{}")  # it moves the first twenty
    assert ids(first.requests) == requests[20:25]
    clock.advance(seconds=1.1)
    second = store.dequeue("one", ["default"], 5, floor=first.floor)
    assert ids(second.requests) == requests[:5]


def test_an_abandoned_request_keeps_its_place(store: Session, clock: Clock) -> None:
    store.put(2)
    clock.advance(seconds=5)
    claim = store.dequeue("one", ["default"], 1)
    store.put(1)
    store.abandon(claim.requests)
    again = store.dequeue("one", ["default"], 1, floor=claim.floor)
    assert ids(again.requests) == ids(claim.requests)


def test_a_broken_lease_keeps_its_place(store: Session, clock: Clock) -> None:
    both = store.put(2)
    first = store.dequeue("dead", ["default"], 1, lease=timedelta(milliseconds=500))
    clock.advance(seconds=0.6)
    again = store.dequeue("one", ["default"], 2, floor=first.floor)
    assert ids(again.requests) == both


def test_a_successor_in_its_group_keeps_its_place(store: Session, clock: Clock) -> None:
    first, second = store.put(2, group_key="g")
    clock.advance(seconds=5)
    (other,) = store.put()
    claim = store.dequeue("one", ["default"], 1)
    assert ids(claim.requests) == [first]
    claim_other = store.dequeue("one", ["default"], 1, floor=claim.floor)
    assert ids(claim_other.requests) == [other]
    store.complete(claim.requests)
    assert ids(store.claim(limit=1, floor=claim_other.floor)) == [second]


def test_a_claim_does_not_pass_what_may_be_committed_at_this_moment(
    store: Session, another: Another
) -> None:
    slow = another()
    slow.begin()
    (late,) = slow.put()
    store.put(2)
    claim = store.dequeue("one", ["default"], 1)
    slow.commit()
    assert ids(store.claim(limit=1, floor=claim.floor)) == [late]


@FLOORS
@pytest.mark.new_database
def test_a_request_committed_late_below_the_floor_is_claimed_within_a_second(
    store: Session, another: Another, clock: Clock
) -> None:
    slow = another()
    slow.begin()
    (late,) = slow.put()
    floor = below_a_floor(store, clock)
    slow.commit()
    passed_over = store.dequeue("one", ["default"], 1, floor=floor)
    assert passed_over.requests == [], "there is no floor to be below of"
    clock.advance(seconds=1.001)
    assert ids(store.claim(limit=1, floor=passed_over.floor)) == [late]


@FLOORS
@pytest.mark.new_database
def test_a_request_committed_very_late_is_claimed_within_a_second_of_its_commit(
    store: Session, another: Another, clock: Clock
) -> None:
    """However many floors have come and gone meanwhile: nothing is proven while it is open."""
    slow = another()
    slow.begin()
    (late,) = slow.put()
    floor: str | None = below_a_floor(store, clock)
    for _ in range(5):
        clock.advance(seconds=1.001)
        assert store.dequeue("one", ["default"], 1, floor=dear(floor)).requests == []
        floor = store.dequeue("one", ["default"], 1, floor=dear(floor)).floor
    slow.commit()
    clock.advance(seconds=1.001)
    assert ids(store.claim(limit=1, floor=dear(floor))) == [late]


@FLOORS
@pytest.mark.new_database
def test_requests_whose_claim_was_rolled_back_are_claimed_within_a_second(
    store: Session, another: Another, clock: Clock
) -> None:
    requests = store.put(3)
    doomed = another()
    doomed.begin()
    assert ids(doomed.claim("doomed", limit=2)) == requests[:2]
    floor: str | None = below_a_floor(store, clock)
    store.claim(limit=1)
    for _ in range(3):
        clock.advance(seconds=1.001)
        claim = store.dequeue("one", ["default"], 1, floor=dear(floor))
        assert claim.requests == []
        floor = claim.floor
    doomed.kill()
    clock.advance(seconds=1.001)
    assert ids(store.claim(limit=3, floor=dear(floor))) == requests[:2]


@FLOORS
@pytest.mark.new_database
def test_an_expired_lease_and_a_due_request_below_the_floor_are_found_within_a_second(
    store: Session, another: Another, clock: Clock
) -> None:
    slow = another()
    slow.begin()
    (scheduled,) = slow.put(delay=timedelta(seconds=1))
    store.put()
    leased = slow.claim("slow", lease=timedelta(seconds=1))
    clock.advance(seconds=5)
    floor = below_a_floor(store, clock)
    slow.commit()
    assert store.claim(limit=2, floor=dear(floor)) == []
    clock.advance(seconds=1.001)
    assert ids(store.claim(limit=2, floor=dear(floor))) == [*ids(leased), scheduled]


@pytest.mark.new_database
def test_a_floor_does_not_outlive_a_clock_that_is_set_back(store: Session, clock: Clock) -> None:
    store.keep_floors()
    floor: str | None = None
    for _ in range(3):
        floor = store.dequeue("one", ["default"], 1, floor=dear(floor)).floor
        store.others_have_ended()
        clock.advance(seconds=1.001)
    clock.advance(minutes=-10)
    requests = store.put()
    clock.advance(seconds=1)
    assert ids(store.claim(limit=2, floor=dear(floor))) == requests


def dear(floor: str | None) -> str | None:
    """The floor as if looking everywhere had become expensive under an old snapshot."""
    import json

    if floor is None:
        return None
    parts = json.loads(floor)
    for queue in parts.get("queues", {}).values():
        queue["full"] = "9999-01-01T00:00:00+00:00"
    return json.dumps(parts)


@pytest.mark.new_database
@pytest.mark.parametrize("keep", [False, True], ids=["looking everywhere", "keeping"])
@pytest.mark.parametrize("seed", range(4))
def test_with_a_floor_the_order_is_the_same(
    store: Session, clock: Clock, seed: int, keep: bool
) -> None:
    """A random walk: a single session always claims the first request."""
    if keep:
        store.keep_floors()
    draw = random.Random(seed)
    running: list[LeasedRequest] = []
    floor: str | None = None
    for _ in range(150):
        step = draw.choice(["put", "put", "take", "take", "abandon", "fail", "complete", "time"])
        if step == "put":
            store.enqueue_many(
                "default",
                [
                    NewRequest(
                        kind="a",
                        priority=draw.randrange(3),
                        group_key=draw.choice([None, None, "g", "h"]),
                        delay=draw.choice([None, None, timedelta(seconds=draw.randrange(4))]),
                    )
                    for _ in range(draw.randrange(1, 6))
                ],
            )
        elif step == "take":
            limit = draw.choice([1, 2, 7])
            expected = first_in_order(store, clock, limit)
            claim = store.dequeue("one", ["default"], limit, floor=dear(floor) if keep else floor)
            assert ids(claim.requests) == expected
            running += claim.requests
            floor = claim.floor
        elif step == "time":
            clock.advance(seconds=draw.choice([0.2, 0.7, 1.5]))
        elif running:
            request = running.pop(draw.randrange(len(running)))
            if step == "abandon":
                store.abandon([request])
            elif step == "complete":
                store.complete([request])
            else:
                store.fail([request], [Failure("x", draw.choice([timedelta(0), timedelta(2)]))])
    assert store.depth() == store.counted()


def first_in_order(store: Session, clock: Clock, limit: int) -> list[int]:
    """The requests that a claim must return, by the table alone."""
    unfinished = store.rows("queue", "priority", "due_time", "request_id", "status", "group_key")
    heads: dict[str, tuple[bool, int]] = {}
    for _, _, request_id, status, group in unfinished:
        if group is not None and status != "Failed":
            heads[group] = min(
                heads.get(group, (True, request_id)), (status != "Processing", request_id)
            )
    may_run = [
        (-priority, due, request_id)
        for priority, due, request_id, status, group in unfinished
        if status in ("Pending", "Scheduled")
        and due <= clock.now
        and (group is None or heads[group] == (True, request_id))
    ]
    return [request_id for _, _, request_id in sorted(may_run)[:limit]]
