"""Groups: at most one request of a group in flight, in request order, at no cost to the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from rowlease.errors import StoreConflict
from rowlease.model import Failure, NewRequest, Outcome
from rowlease.store import open_store
from tests.contract.sessions import IGNORES_HINTS, Clock, Session
from tests.contract.test_3_order import ids

pytestmark = pytest.mark.both_ways

Another = Callable[[], Session]
AT_ONCE = Failure("x", after=timedelta(0))


def in_group(count: int, group: str = "g") -> list[NewRequest]:
    return [NewRequest(kind="a", group_key=group)] * count


def test_one_at_a_time_and_in_request_order(store: Session) -> None:
    requests = store.put(3, group_key="g") + store.put(group_key="g") + store.put(group_key="g")
    for request in requests:
        leased = store.claim(limit=5)
        assert ids(leased) == [request]
        assert store.claim(limit=5) == []
        store.complete(leased)


@pytest.mark.new_database
@pytest.mark.only_on("postgresql", why="there alone a claim looks first and locks later")
@pytest.mark.parametrize("in_lane", [False, True], ids=["", "beside a lane"])
def test_a_group_that_appears_after_the_look_is_left_to_the_next_claim(
    store: Session, in_lane: bool
) -> None:
    """A look that sees no groups stands for one that came before their commit."""
    store.with_floors = False
    store.execute(
        "create or replace function rowlease_internal.look(p_queue_name text, p_now timestamptz)"
        " returns table (paused boolean, max_priority smallint, capacity bigint,"
        "  lease_seconds integer, is_plain boolean, in_lane boolean, first_priority smallint,"
        "  first_time timestamptz, first_id bigint, next_event timestamptz)"
        " language sql stable begin atomic"
        f"  select false, 9::smallint, null::bigint, 30, true, {in_lane}, 0::smallint,"
        "   timestamptz '-infinity', 0::bigint, null::timestamptz; end"
    )
    store.put(2, group_key="g")
    store.put(group_key="h", priority=1)
    expected = store.put(2)
    if in_lane:
        run = store.begun("x")
        store.lay("x", run, [{"kind": "b"}])
        store.promote("x", run, 1)
        expected += [id for (id,) in store.rows("lane", "request_id")]
    assert ids(store.dequeue("one", ["default"], 6).requests) == expected


def test_groups_do_not_hold_each_other_up(store: Session) -> None:
    first = store.put(2, group_key="g")
    second = store.put(2, group_key="h")
    free = store.put(2)
    assert ids(store.claim(limit=9)) == [first[0], second[0], *free]


def test_a_tenant_of_three_groups_runs_three_requests_and_leaves_the_other_slots(
    store: Session,
) -> None:
    """How docs/queues.md limits what a tenant runs at once."""
    many = [store.put(group_key=f"many {number % 3}")[0] for number in range(12)]
    few = [store.put(group_key=f"few {number % 3}")[0] for number in range(2)]
    leased = store.claim(limit=9)
    assert ids(leased) == [*many[:3], *few]
    store.complete(leased[:1])
    assert ids(store.claim(limit=9)) == many[3:4]


def test_groups_of_the_same_name_in_two_queues_are_two_groups(store: Session) -> None:
    store.configure_queue("other")
    store.put(group_key="g")
    store.put(group_key="g", queue="other")
    assert len(store.dequeue("one", ["default", "other"], 5).requests) == 2


def test_a_batch_unblocks_the_group_of_each_of_its_requests(store: Session) -> None:
    one, two = store.put(2, group_key="g"), store.put(2, group_key="h")
    leased = store.claim(limit=5)
    assert ids(leased) == [one[0], two[0]]
    store.complete(leased)
    assert ids(store.claim(limit=5)) == [one[1], two[1]]


def test_request_order_counts_inside_a_group_and_not_priority(store: Session) -> None:
    low = store.put(group_key="g", priority=0)
    high = store.put(group_key="g", priority=9)
    leased = store.claim(limit=5)
    assert ids(leased) == low
    store.complete(leased)
    assert ids(store.claim(limit=5)) == high


def test_a_retry_blocks_its_group(store: Session, clock: Clock) -> None:
    first, second = store.put(2, group_key="g")
    store.fail(store.claim(), [Failure("x", after=timedelta(seconds=10))])
    assert store.claim(limit=5) == []
    clock.advance(seconds=10)
    leased = store.claim(limit=5)
    assert ids(leased) == [first]
    store.complete(leased)
    assert ids(store.claim(limit=5)) == [second]


def test_a_request_that_is_not_due_blocks_its_group(store: Session, clock: Clock) -> None:
    (first,) = store.put(group_key="g", delay=timedelta(seconds=10))
    store.put(group_key="g")
    assert store.claim(limit=5) == []
    clock.advance(seconds=10)
    assert ids(store.claim(limit=5)) == [first]


@pytest.mark.parametrize("how", ["abandon", "broken lease"])
def test_a_returned_request_goes_first_in_its_group(store: Session, clock: Clock, how: str) -> None:
    first, _ = store.put(2, group_key="g")
    leased = store.claim()
    if how == "abandon":
        store.abandon(leased)
    else:
        clock.advance(seconds=31)
    assert ids(store.claim(limit=5)) == [first]


@pytest.mark.parametrize(
    "how", ["complete", "dead letter", "no attempts left", "crashes", "cancelled", "purge"]
)
def test_the_end_of_a_request_lets_the_next_one_run(store: Session, clock: Clock, how: str) -> None:
    store.configure_queue("default", max_crashes=1)
    first, second, _ = store.put(3, group_key="g", max_attempts=1)
    match how:
        case "complete":
            store.complete(store.claim())
        case "dead letter":
            store.fail(store.claim(), [Failure("x", dead=True)])
        case "no attempts left":
            store.fail(store.claim(), [Failure("x")])
        case "crashes":
            store.claim()
            clock.advance(seconds=31)
        case "cancelled":
            store.cancel([first])
        case "purge":
            assert store.purge(["Pending"], ids=[first]) == 1
    assert ids(store.claim(limit=5)) == [second]


def test_a_cancelled_running_request_blocks_its_group_until_it_has_ended(store: Session) -> None:
    first, second = store.put(2, group_key="g")
    leased = store.claim()
    assert store.cancel([first]) == [Outcome.CANCEL_REQUESTED]
    assert store.claim(limit=5) == []
    store.fail(leased, [Failure("stopped")])
    assert ids(store.claim(limit=5)) == [second]


def test_a_cancelled_request_in_the_middle_changes_nothing_for_the_others(store: Session) -> None:
    first, second, third = store.put(3, group_key="g")
    store.cancel([second])
    leased = store.claim(limit=5)
    assert ids(leased) == [first]
    store.complete(leased)
    assert ids(store.claim(limit=5)) == [third]


def test_a_dead_letter_does_not_block_its_group_and_waits_its_turn_when_requeued(
    store: Session,
) -> None:
    first, second, third = store.put(3, group_key="g")
    store.fail(store.claim(), [Failure("x", dead=True)])
    leased = store.claim(limit=5)
    assert ids(leased) == [second]
    store.requeue([first])
    assert store.claim(limit=5) == []
    store.complete(leased)
    leased = store.claim(limit=5)
    assert ids(leased) == [first]
    store.complete(leased)
    assert ids(store.claim(limit=5)) == [third]


def test_a_duplicate_at_the_head_of_a_batch_does_not_block_its_group(store: Session) -> None:
    store.put(dedup_key="k")
    batch = [NewRequest(kind="a", group_key="g", dedup_key=key) for key in ("k", None, None)]
    _, second, third = store.enqueue_many("default", batch)
    leased = [r for r in store.claim(limit=9) if r.group_key == "g"]
    assert ids(leased) == [second.request_id]
    store.complete(leased)
    assert ids(store.claim(limit=9)) == [third.request_id]


# -- races -------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit_first", [0, 1])
def test_two_enqueues_that_do_not_see_each_other_still_run_one_at_a_time(
    store: Session, another: Another, commit_first: int
) -> None:
    producers = [another(), another()]
    requests = []
    for producer in producers:
        producer.begin()
        requests += producer.put(group_key="g")
    producers[commit_first].commit()
    producers[1 - commit_first].commit()
    drain_one_at_a_time(store, requests)


def test_an_earlier_request_that_is_committed_while_a_later_one_runs_waits_for_it(
    store: Session, another: Another
) -> None:
    slow = another()
    slow.begin()
    (first,) = slow.put(group_key="g")
    (second, third) = store.put(2, group_key="g")
    running = store.claim(limit=5)
    assert ids(running) == [second]
    slow.commit()
    assert store.claim(limit=5) == []
    store.complete(running)
    drain_one_at_a_time(store, [first, third])


def test_a_request_is_not_overtaken_while_another_transaction_makes_it_due(
    store: Session, another: Another, clock: Clock
) -> None:
    if not store.skips_locked:
        pytest.skip(IGNORES_HINTS)
    (first,) = store.put(group_key="g", delay=timedelta(seconds=10))
    store.put(group_key="g")
    clock.advance(minutes=1)
    other = another()
    other.begin()
    assert other.maintain()
    assert store.claim(limit=5) == []
    other.commit()
    assert ids(store.claim(limit=5)) == [first]


def test_the_end_of_a_request_lets_the_next_one_run_that_is_committed(
    store: Session, another: Another
) -> None:
    store.put(group_key="g")
    running = store.claim()
    producer = another()
    producer.begin()
    producer.put(group_key="g")
    (later,) = store.put(group_key="g")
    assert store.claim(limit=5) == []  # which blocks it
    store.complete(running)
    running = store.claim(limit=5)
    assert ids(running) == [later]
    producer.commit()
    assert store.claim(limit=5) == []


def test_a_request_enqueued_while_the_one_before_it_is_finished_is_not_stuck(
    store: Session, another: Another
) -> None:
    """Its enqueue saw the other one, whose completion did not see it."""
    store.put(group_key="g")
    running = store.claim()
    producer = another()
    producer.begin()
    (second,) = producer.put(group_key="g")
    store.complete(running)
    producer.commit()
    assert ids(store.claim(limit=5)) == [second]


def test_a_request_seen_by_a_claim_while_the_one_before_it_is_finished_is_not_stuck(
    store: Session, another: Another
) -> None:
    """The claim meets it while the completion, which could not see it yet, is not committed."""
    store.put(group_key="g")
    running = store.claim()
    finisher, producer = another(), another()
    producer.begin()
    (second,) = producer.put(group_key="g")
    finisher.begin()
    finisher.complete(running)
    producer.commit()
    call = store.in_background(lambda: store.claim(limit=5))
    assert store.passes(call), "the claim waits for the completion"
    assert call.result() == []
    finisher.commit()
    assert ids(store.claim(limit=5)) == [second]


def test_a_request_blocked_by_a_claim_is_seen_by_the_completion_that_comes_after(
    store: Session, another: Another
) -> None:
    store.put(group_key="g")
    running = store.claim()
    (second,) = store.put(group_key="g")
    claimer, finisher = another(), another()
    claimer.begin()
    assert claimer.claim("two", limit=5) == []
    finishing = finisher.waiting(lambda: finisher.complete(running))
    claimer.commit()
    assert finishing.result() == [Outcome.OK]
    assert ids(store.claim(limit=5)) == [second]


def test_the_next_but_one_runs_where_the_next_is_cancelled_at_the_same_moment(
    store: Session, another: Another
) -> None:
    _, second, third = store.put(3, group_key="g")
    running = store.claim()
    canceller, finisher = another(), another()
    canceller.begin()
    assert canceller.cancel([second]) == [Outcome.OK]
    finishing = finisher.waiting(lambda: finisher.complete(running))
    canceller.commit()
    assert finishing.result() == [Outcome.OK]
    assert ids(store.claim(limit=5)) == [third]


def test_a_revived_request_is_not_stuck_where_its_group_ends_meanwhile(
    store: Session, another: Another
) -> None:
    first, _ = store.put(2, group_key="g")
    store.fail(store.claim(), [Failure("x", dead=True)])
    running = store.claim()
    operator = another()
    operator.begin()
    operator.requeue([first])
    store.complete(running)
    operator.commit()
    assert ids(store.claim(limit=5)) == [first]


@pytest.mark.only_on("postgresql", why="elsewhere the routines never look at an old snapshot")
def test_a_completion_that_cannot_see_its_successor_cannot_be_serialized(
    store: Session, another: Another
) -> None:
    """A caller's own transaction may look at an old snapshot; then nothing of it is done."""
    store.put(group_key="g")
    running = store.claim()
    caller = another()
    caller.execute("begin isolation level repeatable read")
    caller.execute("select count(*) from rowlease.queue")
    (second,) = store.put(group_key="g")
    assert store.claim(limit=5) == []
    with pytest.raises(StoreConflict):
        caller.complete(running)
    caller.rollback()
    assert store.complete(running) == [Outcome.OK]
    assert ids(store.claim(limit=5)) == [second]


def test_the_table_itself_refuses_a_second_one_in_flight(store: Session) -> None:
    _, second = store.put(2, group_key="g")
    (first,) = store.claim()
    with pytest.raises(StoreConflict):
        store.forge(
            "queue",
            second,
            status="Processing",
            locked_by="two",
            locked_time=first.locked_time,
            lock_expires_time=first.lock_expires_time,
            lock_token=1,
            num_attempts=1,
            group_blocked=False,
        )


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_claims_that_do_not_see_each_other_one_may_have_to_try_again(
    store: Session, another: Another, end: str
) -> None:
    producer, one, two = another(), another(), another()
    producer.begin()
    (first,) = producer.put(group_key="g")
    (second,) = store.put(group_key="g")
    one.begin()
    flying = one.claim("one")
    assert ids(flying) == [second]
    producer.commit()
    claim = two.in_background(lambda: two.claim("two"))
    two.settles(claim)  # it waits for the other, or passes over a group that the other has locked
    if end == "rollback":
        one.rollback()
        assert (ids(claim.result()) or ids(store.claim("two"))) == [first]
    else:
        one.commit()
        refused = claim.exception()
        if refused is None:  # where a group has a lock, there is nothing to try again
            assert claim.result() == []
        else:
            assert isinstance(refused, StoreConflict)
            assert refused.transient
        store.complete(flying)
        assert ids(two.claim("two")) == [first]


def test_many_workers_at_once_never_have_two_of_a_group(dsn: str, store: Session) -> None:
    """Groups of 6, in pieces enqueued while 6 workers claim, finish, fail and abandon."""
    store.freeze(None)
    store.configure_queue("default", max_attempts=1000, retry_base_ms=0, retry_cap_ms=0)
    total = 4 * 40

    def produce(group: str) -> None:
        with closing(open_store(dsn)) as own:
            for _ in range(40):
                own.enqueue_many("default", in_group(1, group))

    def work(name: str) -> None:
        with closing(open_store(dsn)) as own:
            turn = 0
            while len(own.depth()) or store_count() < total:
                leased = own.dequeue(name, ["default"], 3).requests
                for request in leased:
                    turn += 1
                    if turn % 5 == 0:
                        own.abandon([request])
                    elif turn % 7 == 0:
                        own.fail([request], [AT_ONCE])
                    else:
                        order[request.group_key or ""].append(request.request_id)
                        own.complete([request])

    def store_count() -> int:
        return sum(len(done) for done in order.values())

    order: dict[str, list[int]] = {group: [] for group in "abcd"}
    with ThreadPoolExecutor(10) as pool:
        calls = [pool.submit(produce, group) for group in "abcd"]
        calls += [pool.submit(work, f"worker {number}") for number in range(6)]
        for call in calls:
            call.result(100)
    assert sorted(len(done) for done in order.values()) == [40] * 4
    assert all(done == sorted(done) for done in order.values())


def drain_one_at_a_time(store: Session, requests: list[int]) -> None:
    for request in sorted(requests):
        leased = store.claim(limit=5)
        assert ids(leased) == [request]
        assert store.claim(limit=5) == []
        store.complete(leased)
    assert store.rows("queue", "request_id") == []


# -- what it costs the others ------------------------------------------------------------------


@pytest.mark.new_database
@pytest.mark.parametrize("how", ["one batch", "one by one"])
def test_ten_thousand_waiting_requests_of_a_group_do_not_slow_the_others(
    store: Session, how: str
) -> None:
    if how == "one batch":
        store.put(10_000, group_key="g")
    else:  # what ten thousand calls leave behind
        store.fill(10_000, group_key="'g'")
    claim = store.dequeue("one", ["default"], 500)
    while claim.requests or claim.more:
        claim = store.dequeue("one", ["default"], 500, floor=claim.floor)
    floor = claim.floor
    others = store.put(10)
    cost = store.measured(lambda: store.claim("other", limit=10, floor=floor))
    assert ids(cost.value) == others
    assert cost.total <= 300, cost.pages


@pytest.mark.new_database
def test_a_group_of_ten_thousand_is_worked_through_at_the_same_cost_to_its_end(
    store: Session,
) -> None:
    store.put(10_000, group_key="g")
    costs = []
    for _ in range(3):
        leased = store.measured(lambda: store.claim(limit=10))
        assert len(leased.value) == 1
        done = store.measured(lambda taken=leased.value: store.complete(taken))  # type: ignore[misc]
        costs.append(leased.total + done.total)
    assert max(costs) < 400
