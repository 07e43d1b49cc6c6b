"""Depth: how many wait, run and have failed per priority, exact, and without counting the queue."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest, QueueFull
from rowlease.model import Depth, Failure, LeasedRequest, Maintained, NewRequest
from rowlease.store import open_store
from tests.contract.sessions import Clock, Session

pytestmark = pytest.mark.both_ways

Another = Callable[[], Session]


def test_it_counts_by_status_and_priority_highest_first(store: Session) -> None:
    store.put(3, priority=1)
    store.put(2, priority=7)
    store.put(priority=7, delay=timedelta(hours=1))
    first, second = store.claim(limit=2)
    store.fail([first], [Failure("x", dead=True)])
    assert store.depth() == [
        Depth("default", 7, scheduled=1, pending=0, processing=1, failed=1),
        Depth("default", 1, scheduled=0, pending=3, processing=0, failed=0),
    ]
    store.complete([second])


def test_a_priority_without_requests_is_left_out(store: Session) -> None:
    store.put(priority=3)
    store.complete(store.claim())
    assert store.depth() == []


def test_it_can_be_asked_of_one_queue(store: Session) -> None:
    store.configure_queue("other")
    store.put(2)
    store.put(3, queue="other")
    assert [d.queue_name for d in store.depth()] == ["default", "other"]
    assert store.depth("other") == [Depth("other", 0, 0, 3, 0, 0)]
    with pytest.raises(InvalidRequest, match='queue "nobody" does not exist'):
        store.depth("nobody")


def test_uncommitted_requests_are_not_counted_and_block_no_count(
    store: Session, another: Another
) -> None:
    one = another()
    one.begin()
    one.put(5)
    store.put(2)
    assert store.depth() == [Depth("default", 0, 0, 2, 0, 0)]
    one.rollback()
    assert store.depth() == store.counted()


@pytest.mark.parametrize("seed", range(2))
def test_it_is_exact_after_whatever_happened(store: Session, clock: Clock, seed: int) -> None:
    """A random walk through every routine that changes a request's status or priority."""
    draw = random.Random(seed)
    store.configure_queue("other", max_priority=3, capacity=15, max_in_flight=4)
    leased: list[LeasedRequest] = []
    words = ["enqueue"] * 3 + ["dequeue"] * 3 + ["complete", "fail", "abandon", "cancel", "purge",
             "requeue", "time", "maintain", "load", "inbox", "settings", "rollback"]  # fmt: skip
    for step in range(200):
        some = draw.sample(leased, min(len(leased), draw.randrange(1, 4)))
        match draw.choice(words):
            case "enqueue":
                enqueue(store, draw)
            case "rollback":
                store.begin()
                store.put(2)
                store.dequeue("gone", ["default", "other"], 5)
                store.rollback()
            case "dequeue":
                leased += store.dequeue("one", ["default", "other"], draw.randrange(1, 9)).requests
            case "complete":
                store.complete(some)
            case "fail":
                after = [None, timedelta(0), timedelta(seconds=5)]
                store.fail(
                    some, [Failure("x", draw.choice(after), draw.random() < 0.4) for _ in some]
                )
            case "abandon":
                store.abandon(some)
            case "cancel":
                live = [i for (i,) in store.rows("queue", "request_id")]
                store.cancel(draw.sample(live, min(len(live), 3)))
            case "purge":
                statuses = draw.choice([["Failed"], ["Scheduled"], ["Pending"]])
                store.purge(statuses, limit=3)
            case "requeue":
                store.operate("requeue", queue=draw.choice(["default", "other"]), limit=2)
            case "time":
                clock.advance(seconds=draw.choice([1, 6, 40]))
            case "maintain":
                store.maintain()
            case "load":
                run = store.staged(
                    f"load {step}",
                    [{"dedup_key": draw.choice("abcde")} for _ in range(2)],
                )
                store.promote(f"load {step}", run, 2)
            case "inbox":
                store.insert("inbox", kind="a", priority=draw.randrange(20))
            case "settings":
                store.configure_queue("default", max_priority=draw.choice([9, 5, 2]))
        assert store.depth() == store.counted()


def enqueue(store: Session, draw: random.Random) -> None:
    batch = [
        NewRequest(
            kind="a",
            priority=draw.randrange(12),
            delay=draw.choice([None, None, timedelta(seconds=draw.randrange(30))]),
            dedup_key=draw.choice([None, None, "a", "b", "c"]),
            group_key=draw.choice([None, None, "g", "h"]),
            max_attempts=draw.choice([None, 1]),
        )
        for _ in range(draw.randrange(1, 6))
    ]
    queue = draw.choice(["default", "other"])
    try:
        store.enqueue_many(queue, batch)
    except QueueFull:
        assert queue == "other"


def test_it_is_exact_after_many_have_worked_at_once(dsn: str, store: Session) -> None:
    store.freeze(None)

    def work(number: int) -> None:
        draw = random.Random(number)
        with closing(open_store(dsn)) as own:
            for _ in range(25):
                try:
                    own.enqueue_many(
                        "default", [NewRequest(kind="a", priority=draw.randrange(3))] * 4
                    )
                    leased = own.dequeue(f"worker {number}", ["default"], 5).requests
                    own.complete(leased[:2])
                    own.fail(leased[2:3], [Failure("x", dead=True)] * len(leased[2:3]))
                    own.abandon(leased[3:4])
                    own.operate("requeue", queue="default", limit=1)
                    own.maintain()
                except store.conflict:
                    assert own.depth()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert store.depth() == store.counted()
    while store.fold_depth(1000) > 10:
        pass
    assert store.depth() == store.counted()


def test_folding_keeps_the_sums_and_leaves_few_rows(store: Session) -> None:
    for priority in (1, 2):
        for _ in range(20):
            store.put(priority=priority)
    store.put(delay=timedelta(hours=1))
    store.claim(limit=3)
    before = store.depth()
    assert len(store.rows("queue_depth", "priority")) > 40
    assert Maintained("counts folded", 42) in store.maintain()
    assert store.depth() == before == store.counted()
    assert len(store.rows("queue_depth", "priority")) == 3


def test_folding_is_bounded_and_passes_over_what_another_folds(
    store: Session, another: Another
) -> None:
    for _ in range(30):
        store.put()
    one = another()
    one.begin()
    assert one.fold_depth(10) == 10
    call = store.in_background(lambda: store.fold_depth(1000))
    assert store.settles(call)
    if call.result() != 0:  # or one folds at a time, and a sum waits for it
        assert call.result() == 20
        assert store.depth() == store.counted()
    one.commit()
    assert store.depth() == store.counted()


def test_priorities_that_came_to_nothing_do_not_pile_up(store: Session) -> None:
    for priority in range(10):
        store.put(priority=priority)
    store.complete(store.claim(limit=5))
    store.cancel([request for (request,) in store.rows("queue", "request_id")])
    store.maintain()
    # The totals of finished requests are left.
    assert store.rows("queue_depth", "priority") == [(priority,) for priority in range(5, 10)]


@pytest.mark.new_database
def test_it_reads_the_counts_and_never_the_queue(store: Session) -> None:
    """However many requests there are, because no page of theirs is looked at."""
    store.fill(100_000, priority="i % 10")
    cost = store.measured(store.depth)
    assert sum(depth.pending for depth in cost.value) == 100_000
    assert set(cost.pages) == {"queue_depth"}
    assert cost.total <= 10


@pytest.mark.only_on("postgresql", why="elsewhere 200,000 counts are not made by one statement")
def test_it_works_where_the_counts_are_many(store: Session) -> None:
    store.execute(
        "insert into rowlease.queue_depth (queue_name, priority, pending)"
        " select 'default', i % 10, 1 from generate_series(1, 200000) i"
    )
    assert [depth.pending for depth in store.depth()] == [20_000] * 10
