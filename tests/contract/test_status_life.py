"""The life of a request: every legal move has a routine, the tables refuse every illegal state."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowlease.errors import AccessDenied, InvalidRequest, QueueFull, StoreError
from rowlease.model import Failure, Held, NewRequest
from tests.contract.sessions import INFINITY, Clock, Session

Birth = Callable[[Session, Clock], int]


def scheduled(store: Session, clock: Clock) -> int:
    return store.put(delay=timedelta(minutes=1))[0]


def pending(store: Session, clock: Clock) -> int:
    return store.put()[0]


def processing(store: Session, clock: Clock) -> int:
    store.put()
    return store.claim()[0].request_id


def failed(store: Session, clock: Clock) -> int:
    store.put()
    (held,) = store.claim()
    store.fail([held], [Failure("gave up", dead=True)])
    return held.request_id


def complete(store: Session, clock: Clock) -> int:
    store.put()
    (held,) = store.claim()
    store.complete([held], ["1"])
    return held.request_id


def cancelled(store: Session, clock: Clock) -> int:
    (request,) = store.put()
    store.cancel([request])
    return request


def time_passes(store: Session, clock: Clock) -> None:
    clock.advance(minutes=2)
    store.maintain()


BIRTHS: dict[str, Birth] = {
    "Scheduled": scheduled,
    "Pending": pending,
    "Processing": processing,
    "Failed": failed,
    "Complete": complete,
    "Cancelled": cancelled,
}

#: Every call that changes a request; the token is the one of the row.
MOVES: dict[str, Callable[[Session, Clock, Held], object]] = {
    "dequeue": lambda store, clock, held: store.claim(),
    "complete": lambda store, clock, held: store.complete([held]),
    "fail": lambda store, clock, held: store.fail([held], [Failure("x")]),
    "fail at once": lambda store, clock, held: store.fail([held], [Failure("x", timedelta(0))]),
    "give up": lambda store, clock, held: store.fail([held], [Failure("x", dead=True)]),
    "abandon": lambda store, clock, held: store.abandon([held]),
    "renew": lambda store, clock, held: store.renew([held]),
    "cancel": lambda store, clock, held: store.cancel([held.request_id]),
    "requeue": lambda store, clock, held: store.requeue([held.request_id]),
    "purge": lambda store, clock, held: store.purge(["Scheduled", "Pending", "Failed"]),
    "time passes": lambda store, clock, held: time_passes(store, clock),
}

#: The diagram of docs/architecture.md. Other calls change nothing.
LEGAL = {
    ("Scheduled", "cancel"): "Cancelled",
    ("Scheduled", "purge"): None,
    ("Scheduled", "time passes"): "Pending",
    ("Pending", "dequeue"): "Processing",
    ("Pending", "cancel"): "Cancelled",
    ("Pending", "purge"): None,
    ("Processing", "complete"): "Complete",
    ("Processing", "fail"): "Scheduled",
    ("Processing", "fail at once"): "Pending",
    ("Processing", "give up"): "Failed",
    ("Processing", "abandon"): "Pending",
    ("Processing", "time passes"): "Pending",
    ("Failed", "requeue"): "Pending",
    ("Failed", "cancel"): "Cancelled",
    ("Failed", "purge"): None,
}


@pytest.mark.parametrize("status", BIRTHS)
def test_a_request_moves_as_the_diagram_says_and_not_otherwise(
    store: Session, clock: Clock, status: str
) -> None:
    for move, make in MOVES.items():
        store.reset()
        request = BIRTHS[status](store, clock)
        assert store.row(request)["status"] == status
        before = store.everything()
        make(store, clock, Held(request, store.row(request)["lock_token"]))
        found = [row for (row,) in store.rows("requests", "status")]
        expected = LEGAL.get((status, move), status)
        assert found == ([] if expected is None else [expected]), move
        if expected == status and (status, move) != ("Processing", "cancel"):
            assert store.everything() == before, move
        live = {"Scheduled", "Pending", "Processing", "Failed"} & set(found)
        assert len(store.rows("queue", "request_id")) == len(live), move


#: A value for a column that must have one.
NOT_NULL = "null value|the value NULL"
#: Columns that no request of a status may have, and the constraint that ensures it.
ILLEGAL: list[tuple[str, dict[str, Any], str]] = [
    ("Pending", {"status": "Complete"}, "queue_status"),
    ("Pending", {"status": "Cancelled"}, "queue_status"),
    ("Pending", {"status": "pending"}, "queue_status"),
    ("Pending", {"status": ""}, "queue_status"),
    ("Pending", {"status": None}, NOT_NULL),
    ("Pending", {"status": "Processing"}, "queue_lease_has_owner"),
    ("Pending", {"status": "Processing", "locked_by": "x"}, "queue_lease_is_whole"),
    ("Pending", {"locked_by": "x"}, "queue_lease_has_owner"),
    ("Scheduled", {"locked_by": "x"}, "queue_lease_has_owner"),
    ("Failed", {"locked_by": "x"}, "queue_lease_has_owner"),
    ("Processing", {"locked_by": None}, "queue_lease_has_owner"),
    ("Processing", {"status": "Pending"}, "queue_lease_has_owner"),
    ("Processing", {"status": "Scheduled"}, "queue_lease_has_owner"),
    ("Processing", {"status": "Failed"}, "queue_dead_letter_says_why"),
    ("Processing", {"status": "Pending", "locked_by": None}, "queue_only_a_lease_runs"),
    ("Processing", {"locked_time": None}, "queue_lease_is_whole"),
    ("Processing", {"lock_expires_time": None}, "queue_lease_is_whole"),
    ("Processing", {"lock_token": 0}, "queue_lease_is_whole"),
    ("Processing", {"num_attempts": 0}, "queue_lease_is_whole"),
    ("Processing", {"group_key": "g", "group_blocked": True}, "queue_only_waiting_have_a_place"),
    ("Processing", {"returned": True}, "queue_only_waiting_have_a_place"),
    ("Processing", {"completion_time": datetime.now(UTC)}, "queue_dead_letter_says_why"),
    ("Pending", {"started_time": datetime.now(UTC)}, "queue_only_a_lease_runs"),
    ("Pending", {"cancel_requested": True}, "queue_only_a_lease_runs"),
    ("Failed", {"cancel_requested": True}, "queue_only_a_lease_runs"),
    ("Failed", {"last_error": None}, "queue_dead_letter_says_why"),
    ("Failed", {"completion_time": None}, "queue_dead_letter_says_why"),
    ("Failed", {"status": "Pending"}, "queue_dead_letter_says_why"),
    ("Failed", {"status": "Scheduled"}, "queue_dead_letter_says_why"),
    ("Failed", {"returned": True}, "queue_only_waiting_have_a_place"),
    ("Failed", {"group_key": "g", "group_blocked": True}, "queue_only_waiting_have_a_place"),
    ("Pending", {"status": "Failed"}, "queue_dead_letter_says_why"),
    ("Pending", {"status": "Failed", "last_error": "x"}, "queue_dead_letter_says_why"),
    ("Pending", {"completion_time": datetime.now(UTC)}, "queue_dead_letter_says_why"),
    ("Scheduled", {"completion_time": datetime.now(UTC)}, "queue_dead_letter_says_why"),
    ("Pending", {"group_blocked": True}, "queue_group"),
    ("Pending", {"priority": 256}, "queue_priority"),
    ("Pending", {"priority": -1}, "queue_priority"),
    ("Pending", {"max_attempts": 0}, "queue_counts"),
    ("Pending", {"num_attempts": -1}, "queue_counts"),
    ("Pending", {"num_crashes": -1}, "queue_counts"),
    ("Pending", {"num_abandons": -1}, "queue_counts"),
    ("Pending", {"lock_token": -1}, "queue_counts"),
    ("Pending", {"retry_base_ms": -1}, "queue_counts"),
    ("Pending", {"kind": ""}, "queue_says_what"),
    ("Pending", {"kind": None}, NOT_NULL),
    ("Pending", {"payload": None}, "queue_says_what"),
    ("Pending", {"queue_name": None}, NOT_NULL),
    ("Pending", {"requested_time": None}, NOT_NULL),
    ("Scheduled", {"due_time": "infinity"}, "queue_due|out of range"),
    ("Scheduled", {"due_time": "-infinity"}, "queue_due|out of range"),
    ("Scheduled", {"due_time": None}, NOT_NULL),
]


def test_the_queue_refuses_what_no_request_can_be(store: Session, clock: Clock) -> None:
    wrong = []
    for status, columns, constraint in ILLEGAL:
        store.reset()
        request = BIRTHS[status](store, clock)
        answered = "accepted"
        try:
            store.forge("queue", request, **columns)
        except (StoreError, InvalidRequest) as error:
            answered = str(error)
        if not re.search(constraint, answered):
            wrong.append((status, columns, answered))
    assert wrong == []


def test_the_tables_refuse_two_of_what_there_may_be_one_of(store: Session) -> None:
    first, second = store.put(2, group_key="g")
    store.claim()
    with pytest.raises(StoreError, match="two requests of one group"):
        store.forge(
            "queue",
            second,
            status="Processing",
            locked_by="x",
            locked_time="2026-01-01",
            lock_expires_time="2026-01-01",
            lock_token=1,
            num_attempts=1,
            group_blocked=False,
        )
    store.forge("queue", first, dedup_key="k")
    with pytest.raises(StoreError, match="queue_dedup"):
        store.forge("queue", second, dedup_key="k")
    with pytest.raises(StoreError, match=r"request_id|queue_pkey"):
        store.forge("queue", second, **{"request_id": first})


@pytest.mark.only_on("postgresql", why="a trigger on SQL Server copies each row that it looks at")
def test_the_tables_refuse_a_token_that_falls(store: Session, clock: Clock) -> None:
    store.put_schedule("s", "0 * * * *", "tidy")
    store.claim_schedules("one")
    request = BIRTHS["Processing"](store, clock)
    token = store.row(request)["lock_token"]
    for allowed in (token, token + 1):
        store.forge("queue", request, lock_token=allowed)
    for refused in (token, 1):
        with pytest.raises(StoreError, match=f"from {token + 1} to {refused}"):
            store.forge("queue", request, lock_token=refused)
    with pytest.raises(psycopg.errors.CheckViolation, match="a lock token must not decrease"):
        store.execute("update rowlease.schedule set lock_token = 0")
    assert store.row(request)["lock_token"] == token + 1


def test_a_queue_cannot_have_settings_that_make_no_sense(store: Session) -> None:
    for constraint, settings in (
        ("max_priority", {"max_priority": 256}),
        ("max_priority", {"max_priority": -1}),
        ("capacity", {"capacity": 0}),
        ("lease", {"lease_seconds": 0}),
        ("lease", {"lease_seconds": 86_401}),
        ("limits", {"max_attempts": 0}),
        ("limits", {"max_crashes": 0}),
        ("retry", {"retry_base_ms": -1}),
        ("retry", {"retry_base_ms": 10, "retry_cap_ms": 9}),
        ("policy", {"policy": "random"}),
        ("aging", {"policy": "aging", "policy_aging_seconds": 0}),
        ("in_flight", {"max_in_flight": 0}),
        ("retention", {"retention_days": 0}),
    ):
        with pytest.raises(InvalidRequest, match=f"queue_settings_{constraint}"):
            store.configure_queue("default", **settings)
    with pytest.raises(InvalidRequest, match="queue_settings_name"):
        store.configure_queue("")


def test_a_load_is_promoted_at_a_time_and_not_before(store: Session) -> None:
    load = {
        "load_id": "x",
        "queue_name": "default",
        "num_rows": 1,
        "started_time": datetime.now(UTC),
        "reported_time": datetime.now(UTC),
    }
    for columns, constraint in (
        ({"status": "Promoted"}, "load_promoted"),
        ({"status": "Staging", "promoted_time": datetime.now(UTC)}, "load_promoted"),
        ({"status": "Done"}, "load_status"),
        ({"status": "Staging", "num_enqueued": 2}, "load_counts"),
    ):
        with pytest.raises(StoreError, match=constraint):
            store.insert("load", **load, **columns)


# -- inbox ---------------------------------------------------------------------------------------


def test_an_insert_into_inbox_is_clamped_and_filled_in(store: Session, clock: Clock) -> None:
    later = clock.now + timedelta(hours=1)
    store.insert("inbox", kind="a")
    store.insert("inbox", kind="b", priority=200, due_time=clock.now - timedelta(days=1))
    store.insert("inbox", kind="c", queue_name="default", due_time=later, payload='{"n": 1}')
    assert store.rows(
        "queue", "kind", "queue_name", "status", "priority", "requested_time", "due_time",
        "max_attempts", "lock_token", "num_attempts",
    ) == [
        ("a", "default", "Pending", 0, clock.now, clock.now, 5, 0, 0),
        ("b", "default", "Pending", 9, clock.now, clock.now, 5, 0, 0),
        ("c", "default", "Scheduled", 0, clock.now, later, 5, 0, 0),
    ]  # fmt: skip
    assert [(held.kind, held.payload) for held in store.claim(limit=3)] == [
        ("b", "{}"),
        ("a", "{}"),
    ]
    clock.advance(hours=1)
    assert {held.kind: held.payload for held in store.claim(limit=3)}["c"] == '{"n": 1}'


def test_an_insert_into_inbox_keeps_its_groups_order_and_its_keys_single(store: Session) -> None:
    for kind in "abc":
        store.insert("inbox", kind=kind, group_key="g")
    for kind in "abc":
        (held,) = store.claim(limit=10)
        assert held.kind == kind
        store.complete([held])
    store.insert("inbox", kind="a", dedup_key="k")
    with pytest.raises(StoreError, match="queue_dedup"):
        store.insert("inbox", kind="b", dedup_key="k")
    assert [counts[2:] for counts in store.depth()] == [(0, 1, 0, 0)]


@pytest.mark.only_on("postgresql", why="its insert can do nothing on a conflict")
def test_an_insert_into_inbox_that_does_nothing_is_not_counted(store: Session) -> None:
    for _ in range(2):
        store.execute(
            "insert into rowlease.inbox (kind, dedup_key) values ('a', 'k') on conflict do nothing"
        )
    assert store.depth() == store.counted()
    assert len(store.rows("queue", "request_id")) == 1


@pytest.mark.only_on("postgresql", why="its insert can do nothing on a conflict")
@pytest.mark.parametrize("first", ["inbox", "enqueue"])
def test_an_insert_into_inbox_that_meets_its_key_while_it_waits_is_not_counted(
    store: Session, another: Callable[[], Session], first: str
) -> None:
    other = another()
    other.begin()
    if first == "inbox":
        other.insert("inbox", kind="a", dedup_key="k")
    else:
        other.put(dedup_key="k")
    insert = (
        "insert into rowlease.inbox (kind, dedup_key) values ('a', 'k'), ('a', 'l'), ('a', 'l')"
        " on conflict do nothing"
    )
    waiting = store.waiting(lambda: store.execute(insert))
    other.commit()
    waiting.result()
    assert len(store.rows("queue", "request_id")) == 2
    assert store.depth() == store.counted()


def test_requests_enqueued_after_an_insert_into_inbox_are_counted_once(store: Session) -> None:
    store.begin()
    store.insert("inbox", kind="a", dedup_key="k")
    store.put(2, dedup_key="l")
    store.put(1, dedup_key="m")
    store.commit()
    assert store.depth() == store.counted()


def test_rows_with_keys_in_one_insert_into_inbox_fit_a_full_queue_no_better(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    with pytest.raises(QueueFull):
        store.insert_many("inbox", [{"kind": "a", "dedup_key": key} for key in "klm"])
    assert store.depth() == []
    store.insert_many("inbox", [{"kind": "a", "dedup_key": key} for key in "kl"])
    assert store.depth() == store.counted()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"queue_name": "defualt"}, 'queue "defualt" does not exist'),
        ({"priority": -1}, "0 or more"),
        ({"kind": ""}, "kind must be a task name"),
        ({"kind": None}, "kind must be a task name"),
        ({"kind": "x" * 201}, "too long"),
        ({"group_key": "x" * 201}, "too long"),
        ({"dedup_key": "x" * 401}, "too long"),
        ({"payload": "[" + "1," * 524_288 + "1]"}, "1048576"),
        ({"payload": "{"}, "not JSON|must be a JSON object"),
        pytest.param({"due_time": "infinity"}, "out of range", marks=INFINITY),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_inbox_refuses_what_enqueue_refuses(
    store: Session, columns: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        store.insert("inbox", **{"kind": "a", **columns})
    assert store.everything() == []


def test_a_full_queue_refuses_inserts_into_inbox(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    store.insert("inbox", kind="a")
    with pytest.raises(QueueFull):
        store.insert("inbox", kind="b")


def test_inbox_has_no_place_for_what_a_client_must_not_say(store: Session) -> None:
    (request,) = store.put()
    columns = set(store.row(request)) - {
        "queue_name", "kind", "priority", "due_time", "dedup_key", "group_key", "headers",
        "payload",
    }  # fmt: skip
    assert {"status", "lock_token", "request_id", "locked_by", "max_attempts"} <= columns
    for column in columns:
        with pytest.raises(StoreError, match=f"(?i){store.spelt(column)}"):
            store.insert("inbox", kind="a", **{column: None})


def test_a_producer_can_insert_into_inbox_and_touch_nothing_else(store: Session) -> None:
    with store.acting_as("producer"):
        store.insert("inbox", kind="a")
        (answer,) = store.enqueue_many("default", [NewRequest(kind="b")])
        assert answer.request_id is not None
        for forbidden in (
            lambda: store.insert("queue", kind="a"),
            lambda: store.forge("queue", 1, priority=9),
            lambda: store.claim(),
            lambda: store.cancel([1]),
            lambda: store.depth(),
        ):
            with pytest.raises(AccessDenied):
                forbidden()
    assert store.rows("queue", "kind") == [("a",), ("b",)]
