"""Batches end with true numbers: without a worker, and when their queues are deleted."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.errors import InvalidRequest, StoreConflict
from rowlease.model import BatchState, Failure, LeasedRequest, NewRequest
from tests.contract.sessions import PostgresSession, Session

Another = Callable[[], Session]
DEAD = Failure("broken", dead=True)
#: How many random orders of finish, fold and delete are tried.
ORDERS = int(os.environ.get("ROWLEASE_BATCH_ORDERS", "12"))


def put(store: Session, count: int, queue: str = "default", **options: Any) -> list[int]:
    requests = [NewRequest(kind="member", payload="{}")] * count
    return [int(one.request_id or 0) for one in store.enqueue_many(queue, requests, **options)]


def callback(store: Session, after: str = "b") -> int:
    (answer,) = store.enqueue_many(
        "default", [NewRequest(kind="callback", payload="{}")], after=after
    )
    return int(answer.request_id or 0)


def state(store: Session, batch_id: str = "b") -> BatchState:
    (found,) = store.list_batches(batch_id)
    return found


def counts(store: Session, batch_id: str = "b") -> tuple[int, ...]:
    """Requests, live, complete, failed, cancelled."""
    return tuple(state(store, batch_id)[1:6])


def told(run: LeasedRequest) -> tuple[str, ...]:
    """The counts in the headers of a request that waited: complete, failed, cancelled."""
    headers = json.loads(run.headers or "{}")
    return tuple(headers[f"batch_{what}"] for what in ("complete", "failed", "cancelled"))


# -- without a worker ------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_id", ["b", None])
def test_a_batch_is_finished_without_maintain(batch_id: str | None, store: Session) -> None:
    put(store, 2, batch_id="b")
    waits = callback(store)
    dead, held = store.claim(limit=2)
    store.fail([dead], [DEAD])
    assert store.finish_batches(batch_id) == 0
    store.complete([held])
    assert store.finish_batches(batch_id) == 2  # the batch, and the request that waited
    assert (state(store).finished_time, counts(store)) == (store.now(), (2, 0, 1, 1, 0))
    (run,) = store.claim()
    assert (run.request_id, told(run)) == (waits, ("1", "1", "0"))
    assert store.finish_batches(batch_id) == 0


def test_one_batch_is_finished_alone(store: Session) -> None:
    put(store, 0, batch_id="a")
    put(store, 1, batch_id="b")
    store.complete(store.claim())
    assert store.finish_batches("b") == 1
    assert [state(store, one).finished_time is None for one in ("a", "b")] == [True, False]
    assert store.finish_batches("unknown") == 0
    assert store.finish_batches() == 1


def test_a_batch_that_a_transaction_adds_to_is_not_finished_and_not_waited_for(
    store: Session, another: Another
) -> None:
    put(store, 1, batch_id="b")
    store.complete(store.claim())
    producer = another()
    producer.begin()
    put(producer, 1, batch_id="b")
    assert (store.finish_batches("b"), store.finish_batches()) == (0, 0)
    producer.commit()
    assert (store.finish_batches("b"), store.finish_batches()) == (0, 0)
    assert counts(store) == (2, 1, 1, 0, 0)


def test_one_batch_is_not_waited_for_while_maintain_finishes_it(
    store: Session, another: Another
) -> None:
    put(store, 1, batch_id="b")
    store.complete(store.claim())
    other = another()
    other.begin()
    other.finish_batches()
    assert store.finish_batches("b") == 0
    other.commit()
    assert state(store).finished_time is not None


def test_a_worker_that_ends_waits_for_another_that_folds(store: Session, another: Another) -> None:
    """Both end at once: what the second has finished is not yet seen by the first."""
    first = another()
    put(store, 1, batch_id="b")
    put(store, 1, batch_id="other")
    member, other = store.claim(limit=2)
    store.complete([other])
    first.begin()
    first.finish_batches()
    store.complete([member])
    second = store.waiting(store.finish_batches)
    first.commit()
    assert second.result() == 1
    assert state(store).finished_time is not None


@pytest.mark.only_on("postgresql", why="SQL Server has no read-only sessions")
def test_a_read_only_session_finishes_nothing(store: PostgresSession) -> None:
    put(store, 1, batch_id="b")
    store.complete(store.claim())
    store.execute("set default_transaction_read_only = on")
    assert store.finish_batches("b") == 0
    store.execute("set default_transaction_read_only = off")
    assert store.finish_batches("b") == 1


def test_a_program_that_waits_for_a_batch_finishes_it(store: Session) -> None:
    put(store, 2, batch_id="b")
    waits = callback(store)
    store.complete(store.claim(limit=2))
    found = Batch("b", BatchReads(store)).wait(timedelta(minutes=1))
    assert (found.num_complete, store.row(waits)["status"]) == (2, "Scheduled")
    assert store.claim()[0].request_id == waits


# -- deleted queues --------------------------------------------------------------------------------


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "not folded"])
@pytest.mark.parametrize("ended", [True, False], ids=["complete", "purged"])
def test_a_batch_ends_whose_queue_is_deleted(folded: bool, ended: bool, store: Session) -> None:
    store.configure_queue("tmp")
    put(store, 15, "tmp", batch_id="b")
    waits = callback(store)
    if folded:
        store.maintain()
    if ended:
        store.complete(store.dequeue("one", ["tmp"], 15).requests)
    store.delete_queue("tmp", purge=not ended)
    store.maintain()
    assert counts(store) == ((15, 0, 15, 0, 0) if ended else (15, 0, 0, 0, 15))
    (run,) = store.claim()
    assert (run.request_id, told(run)) == (waits, ("15", "0", "0") if ended else ("0", "0", "15"))
    assert store.depth() == store.counted()


@pytest.mark.only_on("postgresql", why="on SQL Server it waits for the counts' lock")
def test_a_queue_is_not_deleted_while_maintain_works(store: Session, another: Another) -> None:
    store.configure_queue("tmp")
    other = another()
    other.begin()
    other.maintain()
    with pytest.raises(StoreConflict, match="maintain or a recount has been running for 2 s"):
        store.delete_queue("tmp")
    other.commit()
    store.delete_queue("tmp")


@pytest.mark.only_on("postgresql", why="on SQL Server it waits for the counts' lock")
def test_counts_that_are_folded_while_their_queue_is_deleted_go_with_it(
    store: Session, another: Another
) -> None:
    folder = another()
    while True:
        store.configure_queue("tmp")
        put(store, 2, "tmp", batch_id="b")
        store.maintain()
        store.complete(store.dequeue("one", ["tmp"], 2).requests)
        folder.begin()
        folder.finish_batches("b")
        with suppress(StoreConflict):  # the machine was slower than the 100 ms of its patience
            try:
                deletion = store.waiting(lambda: store.delete_queue("tmp"))
            finally:
                folder.commit()
            deletion.result()
            break
    assert store.rows("queue_depth", "priority", queue_name="tmp") == []


@pytest.mark.parametrize("seed", range(ORDERS))
def test_every_batch_ends_with_true_numbers_whatever_the_order_of_finish_fold_and_delete(
    seed: int, store: Session, another: Another
) -> None:
    draw = random.Random(seed)
    queues, sizes = ["q1", "q2", "q3"], Counter[str]()
    for queue in queues:
        store.configure_queue(queue)
        for batch_id in ("x", "y", "z"):
            count = draw.randint(1, 4)
            put(store, count, queue, batch_id=batch_id)
            sizes[batch_id] += count
    for batch_id in sizes:
        callback(store, batch_id)
    finished = threading.Event()

    def fold(session: Session, draw: random.Random) -> None:
        while not finished.is_set():
            calls: list[Callable[[], object]] = [
                session.maintain, session.finish_batches, session.recount,
            ]  # fmt: skip
            draw.choice(calls)()
            session.finish_batches(draw.choice(["x", "y", "z"]))

    def delete(session: Session, draw: random.Random) -> None:
        while not finished.is_set():
            with suppress(InvalidRequest, StoreConflict):  # it has requests, or is used now
                session.delete_queue(draw.choice(queues), purge=draw.random() < 0.1)

    def finish(session: Session, draw: random.Random) -> None:
        while members_left(session):
            known = [one.queue_name for one in session.list_queues()]
            found: list[LeasedRequest] = []
            with suppress(InvalidRequest):  # a queue has just been deleted
                found = session.dequeue("one", known, draw.randint(1, 5)).requests
            for leased in found:
                if leased.kind == "callback" or draw.random() < 0.2:
                    session.abandon([leased])
                elif draw.random() < 0.2:
                    session.fail([leased], [DEAD])
                else:
                    session.complete([leased])

    with ThreadPoolExecutor(3) as threads:
        others = [
            threads.submit(what, another(), random.Random(seed)) for what in (fold, delete, finish)
        ]
        try:
            finish(store, draw)
            others.pop().result()
        finally:
            finished.set()
        for other in others:
            other.result()
    while store.finish_batches():
        pass
    runs = {json.loads(run.headers or "{}")["batch_id"]: told(run) for run in store.claim(limit=3)}
    assert runs.keys() == sizes.keys()
    for batch_id, size in sizes.items():
        complete = len(
            store.rows("queue_history", "request_id", load_id=batch_id, status="Complete")
        )
        failed = len(store.rows("queue", "request_id", load_id=batch_id))
        assert counts(store, batch_id) == (size, 0, complete, failed, size - complete - failed)
        assert (int(runs[batch_id][0]), sum(map(int, runs[batch_id]))) == (complete, size)
    assert store.depth() == store.counted()


def members_left(store: Session) -> bool:
    rows = store.rows("queue", "load_id", "status")
    return any(load_id and status != "Failed" for load_id, status in rows)


# -- rows and counts that were changed by hand -----------------------------------------------------


def findings(store: Session) -> list[tuple[str, str]]:
    return [(one.subject, one.message) for one in store.diagnose() if one.finding == "batch"]


def corrected(store: Session) -> list[tuple[Any, ...]]:
    return [(one.batch_id, *one[2:5]) for one in store.recount() if one.batch_id is not None]


def test_recount_corrects_a_batch_whose_counts_were_deleted(store: Session) -> None:
    put(store, 10, batch_id="b")
    waits = callback(store)
    store.maintain()
    store.complete(store.claim(limit=8))
    store.fail(store.claim(), [DEAD])
    store.remove("queue_depth", queue_name="default")
    store.maintain()
    assert counts(store) == (10, 10, 0, 0, 0)
    assert findings(store) == [
        ("b", 'the batch "b" counts 10 unfinished requests and has 1, so it does not end rightly')
    ]
    assert corrected(store) == [
        ("b", "batch_live", 10, 1), ("b", "batch_complete", 0, 8), ("b", "batch_failed", 0, 1),
    ]  # fmt: skip
    assert (corrected(store), findings(store)) == ([], [])
    store.complete(store.claim())
    store.maintain()
    (run,) = store.claim()
    assert (run.request_id, told(run)) == (waits, ("9", "1", "0"))


def test_recount_knows_requests_that_were_never_counted(store: Session) -> None:
    put(store, 4, batch_id="b")
    store.complete(store.claim())
    store.remove("queue_depth", queue_name="default")
    assert corrected(store) == [
        ("b", "batch_requests", 0, 4), ("b", "batch_live", 0, 3), ("b", "batch_complete", 0, 1),
    ]  # fmt: skip
    store.complete(store.claim(limit=3))
    store.maintain()
    assert counts(store) == (4, 0, 4, 0, 0)


def test_recount_ends_a_batch_whose_rows_were_deleted(store: Session) -> None:
    ids = put(store, 3, batch_id="b")
    store.complete(store.claim())
    for one in ids[1:]:
        store.remove("queue", request_id=one)
    assert [subject for subject, _ in findings(store)] == ["b"]
    assert corrected(store) == [("b", "batch_live", 2, 0)]
    store.maintain()
    assert (counts(store), state(store).finished_time) == ((3, 0, 1, 0, 2), store.now())


def test_recount_counts_the_lane_and_leaves_right_counts_alone(store: Session) -> None:
    store.lay("l", store.begun("l"), [{"kind": "member"}] * 5)
    store.promote("l", store.begun("l"), 5)
    store.claim(limit=2)
    put(store, 2, batch_id="b")
    assert (corrected(store), findings(store)) == ([], [])
    store.maintain()
    assert (corrected(store), findings(store)) == ([], [])
    assert counts(store, "l") == (5, 5, 0, 0, 0)


def test_recount_of_a_queue_leaves_batches_alone(store: Session) -> None:
    (one,) = put(store, 1, batch_id="b")
    store.remove("queue", request_id=one)
    assert all(each.batch_id is None for each in store.recount("default"))
    assert counts(store) == (1, 1, 0, 0, 0)


def test_doctor_names_batches_that_wait_for_each_other(store: Session) -> None:
    put(store, 1, batch_id="x")
    put(store, 1, batch_id="y", after="x")
    ((waits,),) = [put(store, 1, batch_id="x", after="y")]
    put(store, 1, batch_id="behind", after="y")
    put(store, 1, batch_id="before")
    put(store, 1, batch_id="x", after="before")
    assert findings(store) == [
        ("x", 'the batch "x" waits for the batch "y", which waits for it, so neither ends'),
        ("y", 'the batch "y" waits for the batch "x", which waits for it, so neither ends'),
    ]
    actions = [one.action for one in store.diagnose() if one.finding == "batch"]
    assert actions[0].endswith(f"rowlease requests reschedule id:{waits}")
    store.operate("reschedule", ids=[waits])
    assert findings(store) == []


def test_doctor_names_a_batch_whose_queue_is_gone(store: Session) -> None:
    store.configure_queue("tmp")
    put(store, 2, "tmp", batch_id="b")
    store.remove("queue_settings", queue_name="tmp")
    assert findings(store) == [
        ("b", 'requests of the batch "b" are in the queue "tmp", which does not exist (2)')
    ]
