"""A request and its successor: one is complete, and the other enqueued, or neither."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from rowlease import Client, chain, task, untyped_request
from rowlease.errors import InvalidRequest, LeaseLost, StoreTimeout
from rowlease.model import Failure, Held, LeasedRequest, NewRequest, Outcome
from tests.contexts import context_of
from tests.contract.sessions import Clock, Session

NEXT = NewRequest(kind="second", payload='{"size":5}')


def put(store: Session, batch_id: str | None = None, **fields: Any) -> int:
    (one,) = store.enqueue_many("default", [NewRequest(kind="first", **fields)], batch_id=batch_id)
    assert one.request_id
    return one.request_id


def kinds(store: Session) -> list[tuple[str, str]]:
    """The kind and the status of each request."""
    return [(str(kind), str(status)) for kind, status in store.rows("requests", "kind", "status")]


def claimed(store: Session, worker: str = "one") -> LeasedRequest:
    (held,) = store.claim(worker)
    return held


def test_the_successor_waits_when_the_request_is_complete(store: Session, clock: Clock) -> None:
    first = put(store)
    new = NewRequest(
        kind="second", payload='{"size": 5}', priority=4, group_key="g", max_attempts=2,
        retry_base=timedelta(seconds=3), headers='{"a":"b"}',
    )  # fmt: skip
    assert store.complete_and_enqueue(claimed(store), "5", "default", new) is Outcome.OK
    assert store.row(first)["status"] == "Complete"
    (found,) = store.claim()
    assert (found.kind, found.payload, found.headers) == ("second", '{"size": 5}', '{"a":"b"}')
    assert (found.priority, found.group_key, found.max_attempts) == (4, "g", 2)
    assert store.row(found.request_id)["retry_base_ms"] == 3000
    store.complete([found])
    assert store.counted() == store.depth()


def test_a_delay_begins_when_the_request_is_complete(store: Session, clock: Clock) -> None:
    put(store)
    held = claimed(store)
    clock.advance(seconds=9)
    later = NewRequest(kind="second", delay=timedelta(seconds=20))
    store.complete_and_enqueue(held, None, "default", later)
    (due,) = (due for kind, due in store.rows("queue", "kind", "due_time") if kind == "second")
    assert due == clock.now + timedelta(seconds=20)


def test_only_the_owner_of_the_lease_enqueues_a_successor_and_only_once(
    store: Session, clock: Clock
) -> None:
    put(store)
    late = claimed(store)
    clock.advance(seconds=31)
    held = claimed(store, "two")
    before = store.everything()
    assert store.complete_and_enqueue(late, "1", "default", NEXT) is Outcome.LEASE_LOST
    unknown = Held(10**9, 5)
    assert store.complete_and_enqueue(unknown, "1", "default", NEXT) is Outcome.NOT_FOUND
    assert store.everything() == before
    assert store.complete_and_enqueue(held, "1", "default", NEXT) is Outcome.OK
    assert store.complete_and_enqueue(held, "1", "default", NEXT) is Outcome.REPEAT
    assert store.complete_and_enqueue(late, "1", "default", NEXT) is Outcome.LEASE_LOST
    assert kinds(store) == [("first", "Complete"), ("second", "Pending")]


@pytest.mark.parametrize(
    ("queue", "new", "message"),
    [
        ("nowhere", NEXT, 'queue "nowhere" does not exist'),
        ("default", NewRequest(kind=""), "kind must be a task name"),
        ("default", NewRequest(kind="x", payload="[]"), "payload must be a JSON object"),
        ("default", NewRequest(kind="x", headers="[]"), "headers must be a JSON object"),
        ("default", NewRequest(kind="x", max_attempts=0), "max_attempts is 0"),
    ],
)
def test_if_the_successor_is_refused_the_request_is_not_complete(
    store: Session, queue: str, new: NewRequest, message: str
) -> None:
    put(store)
    held = claimed(store)
    before = store.everything()
    with pytest.raises(InvalidRequest, match=message):
        store.complete_and_enqueue(held, "1", queue, new)
    assert store.everything() == before
    assert store.complete([held]) == [Outcome.OK]


def test_a_successor_fits_into_a_full_queue(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    put(store)
    held = claimed(store)
    put(store)
    assert store.complete_and_enqueue(held, None, "default", NEXT) is Outcome.OK
    assert store.counted() == store.depth()


def test_a_successor_may_be_a_duplicate(store: Session) -> None:
    put(store)
    held = claimed(store)
    key = NewRequest(kind="second", dedup_key="k")
    store.enqueue_many("default", [key])
    assert store.complete_and_enqueue(held, None, "default", key) is Outcome.OK
    assert sorted(kinds(store)) == [("first", "Complete"), ("second", "Pending")]


def test_the_group_of_the_request_goes_on(store: Session) -> None:
    put(store, group_key="g")
    put(store, group_key="g")
    held = claimed(store)
    following = NewRequest(kind="second", group_key="g")
    store.complete_and_enqueue(held, None, "default", following)
    for kind in ("first", "second"):
        found = claimed(store)
        assert found.kind == kind
        store.complete([found])


def test_a_successor_belongs_to_the_batch_which_is_finished_after_it(store: Session) -> None:
    put(store, batch_id="b")
    store.complete_and_enqueue(claimed(store), None, "default", NEXT)
    store.maintain()
    (batch,) = store.list_batches("b")
    assert (batch.num_requests, batch.num_live, batch.finished_time) == (2, 1, None)
    store.complete([claimed(store)])
    store.maintain()
    (batch,) = store.list_batches("b")
    assert (batch.num_requests, batch.num_complete) == (2, 2)
    assert batch.finished_time


def test_a_chain_goes_on_after_a_link_that_was_requeued_when_its_batch_was_finished(
    store: Session,
) -> None:
    first = put(store, batch_id="b")
    store.fail([claimed(store)], [Failure("broken", dead=True)])
    store.maintain()
    (batch,) = store.list_batches("b")
    assert (batch.num_failed, batch.finished_time is not None) == (1, True)
    store.requeue([first])
    assert store.complete_and_enqueue(claimed(store), None, "default", NEXT) is Outcome.OK
    (batch,) = store.list_batches("b")
    assert (batch.num_requests, batch.num_live, batch.num_complete, batch.num_failed) == (
        2,
        1,
        1,
        0,
    )


def test_a_successor_counts_and_a_rolled_back_one_does_not_exist(store: Session) -> None:
    put(store)
    held = claimed(store)
    store.begin()
    store.complete_and_enqueue(held, None, "default", NEXT)
    store.rollback()
    assert kinds(store) == [("first", "Processing")]
    assert store.complete_and_enqueue(held, None, "default", NEXT) is Outcome.OK
    assert store.counted() == store.depth()


@task
def first(size: int) -> int:
    return size


@task
def second(size: int) -> int:
    return size


def test_a_task_completes_its_link_in_its_own_transaction(store: Session) -> None:
    request = chain(first.s(5), second.s())
    store.enqueue_many("default", [request.new])
    held = claimed(store)
    context = context_of(held)
    with closing(store.driver_connection()) as connection:
        context.complete(connection, 7)
        connection.rollback()
        assert kinds(store) == [("first", "Processing")]
        context.complete(connection, 7)
        connection.commit()
        assert kinds(store) == [("first", "Complete"), ("second", "Pending")]
        assert claimed(store).payload == '{"size":7}'
        with pytest.raises(LeaseLost):
            context.complete(connection, 8)
    assert len(kinds(store)) == 2


def test_a_batch_and_what_follows_are_enqueued_whole_or_not_at_all(
    dsn: str, store: Session
) -> None:
    store.configure_queue("other")
    with Client(dsn) as client:
        members: list[Any] = [
            first.s(1),
            first.with_options(queue="other").s(2),
            chain(first.s(3), second.s()),
        ]
        batch = client.enqueue_batch(members, then=second.request(9))
        (found,) = store.list_batches(batch.batch_id)
        assert found.num_requests == 3
        followed = batch.then.read()
        assert followed
        assert followed.kind == "second"
        with pytest.raises(InvalidRequest, match="knows what follows"):
            _ = client.batch(batch.batch_id).then
        rows = store.rows("queue", "queue_name", "kind", "load_id", "status")
        assert sorted(rows) == [
            ("default", "first", batch.batch_id, "Pending"),
            ("default", "first", batch.batch_id, "Pending"),
            ("default", "second", None, "Scheduled"),
            ("other", "first", batch.batch_id, "Pending"),
        ]
        before = store.everything()
        for wrong in (
            {"then": second.with_options(queue="nowhere").request(9)},
            {"batch_id": "x", "then": untyped_request("anything", queue="nowhere")},
        ):
            with pytest.raises(InvalidRequest, match='queue "nowhere" does not exist'):
                client.enqueue_batch(members, **wrong)
        assert store.everything() == before


def test_a_batch_with_a_receipt_is_enqueued_once(dsn: str, store: Session) -> None:
    with Client(dsn) as client:
        for _ in range(2):
            client.enqueue_batch(
                [first.s(1)], then=second.request(1), batch_id="b", receipt="r" * 100
            )
    assert [kind for kind, _ in kinds(store)] == ["first", "second"]


def test_a_batch_whose_commit_is_unknown_is_enqueued_once(
    dsn: str, store: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(dsn) as client:
        real = type(client.store).in_transaction
        answers = []

        def unlucky(own: Any, work: Any) -> Any:
            answer = real(own, work)
            answers.append(answer)
            if len(answers) == 1:
                raise StoreTimeout("the answer was lost")
            return answer

        monkeypatch.setattr(type(client.store), "in_transaction", unlucky)
        client.enqueue_batch([first.s(1)], then=second.request(1))
    assert [[one.outcome for one in answer] for answer in answers] == [
        [Outcome.OK] * 2,
        [Outcome.REPEAT] * 2,
    ]
    assert [kind for kind, _ in kinds(store)] == ["first", "second"]


def test_an_empty_batch_is_finished_and_what_follows_runs(dsn: str, store: Session) -> None:
    with Client(dsn) as client:
        client.enqueue_batch([], then=second.request(1), batch_id="b")
    store.maintain()
    assert claimed(store).kind == "second"
