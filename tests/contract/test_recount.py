"""Rows were changed by hand: counts and groups are corrected."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest, QueueFull, StoreConflict
from rowlease.model import Corrected, Depth, Failure, NewRequest
from rowlease.store import open_store
from tests.contract.sessions import Clock, Session

Another = Callable[[], Session]
Hand = Callable[[Session], object]

#: More than `maintain` looks through.
MANY = 1100


def some_of_everything(store: Session) -> None:
    """Requests in each status, of two priorities and two queues."""
    store.configure_queue("other")
    store.put(3, queue="other")
    store.put(5, priority=1)
    store.put(4, priority=7)
    store.put(2, priority=7, delay=timedelta(hours=1))
    first, *_ = store.claim(limit=3)
    store.fail([first], [Failure("x", dead=True)])
    assert store.depth() == store.counted()


def delete_some(store: Session) -> None:
    for request, status in store.rows("queue", "request_id", "status", queue_name="default"):
        if status in ("Processing", "Failed") or request % 2:
            store.remove("queue", request_id=request)


def move(store: Session) -> None:
    for request, status in store.rows("queue", "request_id", "status"):
        if status == "Scheduled":
            store.forge("queue", request, status="Pending")
        elif status == "Pending" and request % 2:
            store.forge("queue", request, priority=3)
        elif status == "Pending":
            store.forge("queue", request, queue_name="other")
        elif status == "Processing":
            store.forge("queue", request, status="Pending", locked_by=None, started_time=None)


def empty(store: Session, table: str) -> None:
    for (queue,) in store.rows("queue_settings", "queue_name"):
        store.remove(table, queue_name=queue)


HANDS: dict[str, Hand] = {
    "some are deleted": delete_some,
    "all are deleted": lambda store: empty(store, "queue"),
    "some are moved": move,
    "the counts are deleted": lambda store: empty(store, "queue_depth"),
    "counts are doubled": lambda store: store.insert(
        "queue_depth", queue_name="default", priority=7, pending=4, failed=-9
    ),
    "the queue is truncated": lambda store: store.execute("truncate table rowlease.queue"),
}


@pytest.mark.parametrize("hand", HANDS)
def test_counts_that_are_wrong_are_named_and_put_right(store: Session, hand: str) -> None:
    some_of_everything(store)
    HANDS[hand](store)
    before = store.depth()
    corrected = store.recount()
    after = store.depth()
    assert after == store.counted() != before
    assert {
        (c.queue_name, c.priority, c.counter): (c.was, c.actual) for c in corrected
    } == differences(before, after)
    assert store.recount() == []


def differences(before: list[Depth], after: list[Depth]) -> dict[tuple[str, int, str], object]:
    were, are = (
        {
            (d.queue_name, d.priority, name): getattr(d, name)
            for d in depths
            for name in d._fields[2:]
        }
        for depths in (before, after)
    )
    return {
        key: (were.get(key, 0), are.get(key, 0))
        for key in were.keys() | are.keys()
        if were.get(key, 0) != are.get(key, 0)
    }


@pytest.mark.parametrize("hand", HANDS)
def test_maintain_corrects_small_queues(store: Session, hand: str) -> None:
    some_of_everything(store)
    HANDS[hand](store)
    assert "counts corrected" in [step.what for step in store.maintain()]
    assert store.depth() == store.counted()
    assert store.recount() == []


@pytest.mark.parametrize("hand", ["all are deleted", "the counts are deleted"])
def test_maintain_puts_a_large_queue_right_of_which_nothing_is_left(
    store: Session, hand: str
) -> None:
    store.fill(MANY)
    HANDS[hand](store)
    assert "counts corrected" in [step.what for step in store.maintain()]
    assert store.depth() == store.counted()


def test_maintain_sees_that_all_leases_of_a_large_queue_were_deleted(store: Session) -> None:
    store.configure_queue("default", max_in_flight=2)
    store.fill(MANY)
    for leased in store.claim(limit=2):
        store.remove("queue", request_id=leased.request_id)
    assert store.claim() == []
    assert "counts corrected" in [step.what for step in store.maintain()]
    assert len(store.claim(limit=2)) == 2


def test_maintain_notices_requests_of_a_large_queue_that_failed_by_hand(store: Session) -> None:
    store.fill(MANY)
    ((request,), *_) = store.rows("queue", "request_id")
    failed = {"status": "Failed", "last_error": "x", "completion_time": store.now()}
    store.forge("queue", request, **failed)
    assert "counts corrected" in [step.what for step in store.maintain()]
    assert store.depth() == store.counted()


def test_maintain_sees_a_count_below_nothing_in_a_large_queue(store: Session) -> None:
    store.fill(MANY)
    store.insert("queue_depth", queue_name="default", priority=0, failed=-1)
    assert "counts corrected" in [step.what for step in store.maintain()]
    assert store.depth() == store.counted()


def test_maintain_does_not_change_correct_counts(store: Session, clock: Clock) -> None:
    some_of_everything(store)
    store.put(2, group_key="g")
    assert "counts corrected" not in [step.what for step in store.maintain()]


def test_one_queue_is_recounted_and_no_other(store: Session) -> None:
    some_of_everything(store)
    empty(store, "queue")
    assert store.recount("other") == [Corrected("other", 0, "pending", 3, 0)]
    assert {depth.queue_name for depth in store.depth()} == {"default"}
    with pytest.raises(InvalidRequest, match='"nobody" does not exist'):
        store.recount("nobody")


def test_the_name_of_a_queue_may_look_like_markup(store: Session) -> None:
    store.configure_queue("a & b </c>")
    (one,) = store.put(queue="a & b </c>")
    store.remove("queue", request_id=one)
    assert store.recount() == [Corrected("a & b </c>", 0, "pending", 1, 0)]


def test_what_was_finished_and_what_failed_stays_counted(store: Session) -> None:
    store.put(3)
    done, failed, _ = store.claim(limit=3)
    store.complete([done])
    store.fail([failed], [Failure("x")])
    empty(store, "queue")
    store.recount()
    assert [(q.num_finished, q.num_failures) for q in store.list_queues()] == [(1, 1)]


def test_a_queue_that_was_emptied_by_hand_has_room(store: Session) -> None:
    store.configure_queue("default", capacity=5)
    store.put(5)
    empty(store, "queue")
    with pytest.raises(QueueFull):
        store.put()
    store.maintain()
    assert len(store.put(5)) == 5


def test_a_limit_in_flight_does_not_count_leases_that_were_deleted_by_hand(store: Session) -> None:
    store.configure_queue("default", max_in_flight=2)
    store.put(4)
    for leased in store.claim(limit=2):
        store.remove("queue", request_id=leased.request_id)
    assert store.claim() == []
    store.recount("default")
    assert len(store.claim(limit=2)) == 2


# -- groups ----------------------------------------------------------------------------------------


def mend_by_recount(store: Session) -> None:
    corrected = store.recount()
    assert corrected.pop() == Corrected("default", 0, "group_blocked", 1, 0)
    assert [c.counter for c in corrected] in ([], ["pending"])


def mend_by_maintain(store: Session) -> None:
    assert "counts corrected" in [step.what for step in store.maintain()]


MENDS = {"recount": mend_by_recount, "maintain": mend_by_maintain}


@pytest.mark.parametrize("mend", MENDS)
def test_a_group_whose_first_request_was_deleted_continues(store: Session, mend: str) -> None:
    first, second = store.put(2, group_key="g")
    store.remove("queue", request_id=first)
    (third,) = store.put(group_key="g")
    assert store.claim(limit=9) == []
    MENDS[mend](store)
    (held,) = store.claim(limit=9)
    assert held.request_id == second
    store.complete([held])
    assert [held.request_id for held in store.claim(limit=9)] == [third]


@pytest.mark.parametrize("mend", MENDS)
def test_a_request_that_was_moved_to_its_own_group_continues(store: Session, mend: str) -> None:
    first, second = store.put(2, group_key="g")
    store.forge("queue", second, group_key="h")
    MENDS[mend](store)
    assert [held.request_id for held in store.claim(limit=9)] == [first, second]


def test_a_group_whose_first_request_is_there_stays_in_line(store: Session) -> None:
    store.put(2, group_key="g")
    (running, _) = store.put(2, group_key="h")
    (leased,) = [held for held in store.claim(limit=9) if held.request_id == running]
    assert store.recount() == []
    assert store.claim(limit=9) == []
    store.complete([leased])
    assert len(store.claim(limit=9)) == 1


def test_a_group_in_a_large_queue_continues_after_a_recount(store: Session) -> None:
    store.fill(MANY, priority="1")
    first, second = store.put(2, group_key="g", priority=2)
    store.remove("queue", request_id=first)
    store.recount()
    assert [held.request_id for held in store.claim()] == [second]


def test_recount_and_maintain_skip_locked_rows(store: Session, another: Another) -> None:
    first, second = store.put(2, group_key="g")
    store.remove("queue", request_id=first)
    dba = another()
    dba.begin()
    dba.forge("queue", second, num_crashes=0)
    for call in (store.maintain, store.recount):
        mending = store.in_background(call)
        assert store.passes(mending)
        mending.result()
    dba.rollback()
    assert store.recount() == [Corrected("default", 0, "group_blocked", 1, 0)]


# -- beside the work -------------------------------------------------------------------------------


def test_in_the_transaction_that_deletes_the_counts_are_right_with_its_commit(
    store: Session, another: Another
) -> None:
    some_of_everything(store)
    dba = another()
    dba.begin()
    delete_some(dba)
    assert dba.recount()
    before = store.depth()
    dba.commit()
    assert store.depth() == store.counted() != before


def test_what_is_not_committed_is_no_mistake(store: Session, another: Another) -> None:
    """Neither a request nor its count is seen; no call waits."""
    store.put(3)
    one = another()
    one.begin()
    one.put(5)
    one.claim("one", limit=2)
    call = store.in_background(store.recount)
    assert store.passes(call)
    assert call.result() == []
    one.commit()
    assert store.depth() == store.counted()


def test_one_at_a_time_recounts_or_maintains(store: Session, another: Another) -> None:
    store.put(3)
    empty(store, "queue")
    one = another()
    one.begin()
    assert one.recount() == [Corrected("default", 0, "pending", 3, 0)]
    assert store.in_background(store.maintain).result(20) == []
    with pytest.raises(StoreConflict, match="call again"):
        store.in_background(store.recount).result(20)
    one.commit()
    assert store.recount() == []
    assert store.depth() == []


def some_request(draw: random.Random) -> NewRequest:
    return NewRequest(kind="a", priority=draw.randrange(3), group_key=draw.choice("gh"))


def test_beside_work_it_finds_nothing_wrong_that_is_right(dsn: str, store: Session) -> None:
    """And mistakes are corrected once, whatever runs meanwhile."""
    store.freeze(None)
    store.configure_queue("default", max_in_flight=20)
    working = threading.Event()
    working.set()

    def work(number: int) -> None:
        draw = random.Random(number)
        with closing(open_store(dsn)) as own:
            while working.is_set():
                with suppress(StoreConflict):
                    own.enqueue_many("default", [some_request(draw) for _ in range(4)])
                    leased = own.dequeue(f"worker {number}", ["default"], 5).requests
                    own.complete(leased[:2])
                    own.fail(leased[2:3], [Failure("x", dead=True)] * len(leased[2:3]))
                    own.abandon(leased[3:])
                    own.operate("requeue", queue="default", limit=1)
                    own.maintain()

    def once_more() -> list[Corrected]:
        while True:
            with suppress(StoreConflict):
                return store.recount()

    with ThreadPoolExecutor(4) as pool:
        try:
            workers = [pool.submit(work, number) for number in range(4)]
            for _ in range(20):
                assert once_more() == []
            for wrong in range(1, 6):
                store.insert("queue_depth", queue_name="default", priority=9, failed=wrong)
                # Or a call of maintain has corrected it before.
                assert once_more() in ([], [Corrected("default", 9, "failed", wrong, 0)])
        finally:
            working.clear()
        for each in workers:
            each.result()
    assert store.depth() == store.counted()
