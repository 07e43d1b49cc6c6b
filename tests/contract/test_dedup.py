"""Dedup: one live request per queue and key, and enqueue returns which are new."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import StoreError
from rowlease.model import Enqueued, Failure, NewRequest, Outcome, Promoted
from rowlease.store import open_store
from tests.contract.sessions import Clock, Session
from tests.contract.test_3_order import ids

Another = Callable[[], Session]


def keyed(*keys: str | None) -> list[NewRequest]:
    return [NewRequest(kind="a", dedup_key=key) for key in keys]


def offer(store: Session, *keys: str | None, queue: str = "default") -> list[Enqueued]:
    return store.enqueue_many(queue, keyed(*keys))


def outcomes(answers: Iterable[Enqueued]) -> list[str]:
    return [str(answer.outcome) for answer in answers]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"priority": 255},
        {"delay": timedelta(hours=1)},
        {"due_time": datetime(2001, 1, 1, tzinfo=UTC)},
        {"max_attempts": 2, "retry_base": timedelta(seconds=7)},
    ],
    ids=["nothing", "priority", "delay", "past", "retries"],
)
def test_a_key_changes_nothing_else_about_a_request(store: Session, fields: dict[str, Any]) -> None:
    keyings: list[dict[str, Any]] = [{}, {"dedup_key": "k"}, {"group_key": "g"}]
    for keys in keyings:
        store.enqueue_many("default", [NewRequest(kind="a", **fields, **keys)])
    columns = ("queue_name", "kind", "status", "priority", "requested_time", "due_time")
    rows = store.rows("queue", *columns, "max_attempts", "retry_base_ms")
    assert rows == [rows[0]] * 3


def test_enqueue_says_which_requests_are_new_in_the_order_given(store: Session) -> None:
    (first,) = offer(store, "k")
    answers = offer(store, "l", "k", None, "m")
    assert outcomes(answers) == ["ok", "duplicate", "ok", "ok"]
    assert answers[1].request_id == first.request_id
    assert len({answer.request_id for answer in answers}) == 4


def test_within_one_call_the_first_of_equal_keys_is_the_new_one(store: Session) -> None:
    answers = offer(store, "k", None, "k", "l", "k", None)
    assert outcomes(answers) == ["ok", "ok", "duplicate", "ok", "duplicate", "ok"]
    assert answers[2].request_id == answers[4].request_id == answers[0].request_id
    assert len(store.rows("queue", "request_id")) == 4


def test_a_duplicate_changes_nothing_about_the_request_that_lives(store: Session) -> None:
    offer(store, "k")
    before = store.everything()
    store.enqueue_many(
        "default",
        [NewRequest(kind="b", payload='{"a": 1}', priority=9, dedup_key="k", group_key="g")],
    )
    assert store.everything() == before


def test_a_key_is_a_queues_own(store: Session) -> None:
    store.configure_queue("other")
    assert outcomes(offer(store, "k") + offer(store, "k", queue="other")) == ["ok", "ok"]


def test_an_empty_key_is_a_key_and_none_is_none(store: Session) -> None:
    assert outcomes(offer(store, "", "", None, None)) == ["ok", "duplicate", "ok", "ok"]


@pytest.mark.parametrize("state", ["scheduled", "pending", "running", "to be retried", "returned"])
def test_a_key_is_taken_as_long_as_its_request_lives(
    store: Session, clock: Clock, state: str
) -> None:
    request = NewRequest(
        kind="a", dedup_key="k", delay=timedelta(hours=1) if state == "scheduled" else None
    )
    (first,) = store.enqueue_many("default", [request])
    if state in ("running", "to be retried", "returned"):
        leased = store.claim()
        if state == "to be retried":
            store.fail(leased, [Failure("x")])
        elif state == "returned":
            store.abandon(leased)
    assert offer(store, "k") == [first._replace(outcome=Outcome.DUPLICATE)]


@pytest.mark.parametrize("end", ["complete", "cancel", "dead letter", "purge", "crashes"])
def test_a_key_is_free_again_when_its_request_has_ended(
    store: Session, clock: Clock, end: str
) -> None:
    store.configure_queue("default", max_crashes=1)
    (first,) = offer(store, "k")
    match end:
        case "complete":
            store.complete(store.claim())
        case "cancel":
            store.cancel([first.request_id or 0])
        case "dead letter":
            store.fail(store.claim(), [Failure("x", dead=True)])
        case "purge":
            store.purge(["Pending"])
        case "crashes":
            store.claim()
            clock.advance(seconds=31)
            store.maintain()
    (second,) = offer(store, "k")
    assert second.outcome is Outcome.OK
    assert ids(store.claim(limit=5)) == [second.request_id]


def test_a_dead_letter_does_not_come_back_beside_its_successor(store: Session) -> None:
    (first,) = offer(store, "k")
    store.fail(store.claim(), [Failure("x", dead=True)])
    offer(store, "k")
    assert first.request_id is not None
    assert store.requeue([first.request_id]) == [Outcome.DUPLICATE]
    store.complete(store.claim())
    assert store.requeue([first.request_id]) == [Outcome.OK]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_enqueue_waits_for_one_of_the_same_key_that_is_not_committed_yet(
    store: Session, another: Another, end: str
) -> None:
    """Only its end decides whether the second is a duplicate."""
    one, two = another(), another()
    one.begin()
    (first,) = offer(one, "k")
    second = two.waiting(lambda: offer(two, "k"))
    if end == "commit":
        one.commit()
        assert second.result() == [first._replace(outcome=Outcome.DUPLICATE)]
    else:
        one.rollback()
        assert outcomes(second.result()) == ["ok"]
    assert len(store.rows("queue", "request_id")) == 1


def test_other_keys_do_not_wait(store: Session, another: Another) -> None:
    one = another()
    one.begin()
    offer(one, "k")
    call = store.in_background(lambda: offer(store, "l", None))
    assert store.settles(call)
    assert outcomes(call.result()) == ["ok", "ok"]


def test_a_load_counts_the_keys_that_are_taken_and_those_that_came_twice(store: Session) -> None:
    offer(store, "k")
    run = store.staged("load", [{"dedup_key": key} for key in ("k", "l", "l", None, None)])
    assert store.promote("load", run, 5) == Promoted(Outcome.OK, 5, 3, 2)
    assert store.promote("load", run, 5) == Promoted(Outcome.REPEAT, 5, 3, 2)


def test_the_inbox_refuses_a_key_that_is_taken(store: Session) -> None:
    """A plain INSERT has no way to answer `duplicate`."""
    offer(store, "k")
    before = store.everything()
    with pytest.raises(StoreError):
        store.insert_many("inbox", [{"kind": "a", "dedup_key": key} for key in ("l", "k")])
    assert store.everything() == before


def test_of_many_producers_of_the_same_keys_each_key_has_one_winner(
    dsn: str, store: Session
) -> None:
    keys = [f"k{number}" for number in range(20)]

    def produce(number: int) -> list[Enqueued]:
        with closing(open_store(dsn)) as own:
            # In one order, or two calls could wait for each other.
            return [answer for key in keys for answer in own.enqueue_many("default", keyed(key))]

    with ThreadPoolExecutor(8) as pool:
        reported = list(pool.map(produce, range(8)))
    for answers in zip(*reported, strict=True):
        assert sorted(outcomes(answers)) == ["duplicate"] * 7 + ["ok"]
        assert len({answer.request_id for answer in answers}) == 1
    assert len(store.rows("queue", "request_id")) == 20
