"""When a request becomes a dead letter, a request for the task of `on_dead_letter` is enqueued."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rowlease.model import Failure, Outcome
from tests.contract import sessions
from tests.contract.sessions import Clock, Session

module_database, dsn = sessions.module_database, sessions.emptied_database

#: Each way in which the only request becomes a dead letter, with the error.
Way = Callable[[Session, Clock], str]


def last_failure(store: Session, clock: Clock) -> str:
    assert store.fail(store.claim(), [Failure("no")]) == [Outcome.OK]
    return "no"


def exchanged(store: Session, clock: Clock) -> str:
    failed = [(one, Failure('"no"', dead=True)) for one in store.claim()]
    assert store.exchange("one", ["default"], 0, failed=failed).dead == [True]
    return '"no"'


def ten_abandons(store: Session, clock: Clock) -> str:
    for _ in range(10):
        assert store.abandon(store.claim()) == [Outcome.OK]
    return "no attempts left: abandoned ten times in a row"


def unknown_kind(store: Session, clock: Clock) -> str:
    store.configure_queue("default", unknown_kind_seconds=0)
    assert store.decline(store.claim(), ["x"]) == ([Outcome.OK], [True])
    return 'for 0 s no live worker of queue "default" has known kind "act"'


def crash(store: Session, clock: Clock) -> str:
    store.claim()
    clock.advance(seconds=31)
    assert store.claim("two") == []
    return "no attempts left: the lease ran out; its worker was killed, stopped or cut off"


def operator(store: Session, clock: Clock) -> str:
    (held,) = store.claim()
    store.operate("break", ids=[held.request_id])
    return "no attempts left: an operator ended the lease"


WAYS: dict[str, Way] = {
    "the last failure": last_failure,
    "an exchange": exchanged,
    "ten abandons": ten_abandons,
    "an unknown kind": unknown_kind,
    "a crash": crash,
    "an operator": operator,
}


def reports(store: Session) -> list[tuple[str, Any]]:
    """The requests for tasks: their queue and payload."""
    rows = [store.row(number) for (number,) in store.rows("queue", "request_id", kind="report")]
    return [(row["queue_name"], json.loads(json.dumps(row["payload"]))) for row in rows]


@pytest.fixture(autouse=True)
def tasks(store: Session) -> None:
    store.configure_queue("alarms")
    store.set_dead_letter_tasks(["default"], {"act": ("alarms", "report"), "report": None})


@pytest.mark.parametrize("way", WAYS)
def test_each_dead_letter_is_reported_once(way: str, store: Session, clock: Clock) -> None:
    (request,) = store.put(kind="act", max_attempts=1)
    error = WAYS[way](store, clock)
    ((queue, payload),) = reports(store)
    assert queue == "alarms"
    assert (payload["request_id"], payload["kind"]) == (request, "act")
    assert payload["error"].partition("\n")[0] == error
    assert store.depth() == store.counted()
    (held,) = store.dequeue("two", ["alarms"], 9).requests
    assert (held.kind, held.max_attempts, held.num_attempts) == ("report", 5, 1)


def test_a_dead_letter_that_lives_and_dies_again_is_reported_again(store: Session) -> None:
    (request,) = store.put(kind="act", max_attempts=1)
    for _ in range(2):
        store.fail(store.claim(), [Failure("no")])
        store.requeue([request])
    assert [payload["request_id"] for _, payload in reports(store)] == [request] * 2


def test_what_is_rolled_back_is_not_reported(store: Session) -> None:
    store.put(kind="act", max_attempts=1)
    held = store.claim()
    store.begin()
    store.fail(held, [Failure("no")])
    store.rollback()
    assert reports(store) == []


def test_only_a_dead_letter_is_reported(store: Session, clock: Clock) -> None:
    store.put(2, kind="act", max_attempts=2)
    store.put(kind="another", max_attempts=1)
    held = store.claim(limit=3)
    store.cancel([held[1].request_id])
    store.fail(held, [Failure("no"), Failure("no", dead=True), Failure("no")])
    clock.advance(seconds=9)
    (again,) = store.claim()
    store.cancel([again.request_id])
    clock.advance(seconds=31)
    assert store.claim("two") == []
    assert reports(store) == []


def test_the_worker_that_starts_last_decides_for_its_queues(store: Session) -> None:
    store.configure_queue("other")
    store.configure_queue("desk")
    queues = ["default", "other"]
    store.set_dead_letter_tasks(queues, {"act": ("alarms", "report"), "fly": ("alarms", "report")})
    store.set_dead_letter_tasks(["default"], {"act": ("desk", "report"), "fly": None})
    for kind, queue in (("act", "default"), ("fly", "default"), ("fly", "other")):
        store.put(kind=kind, max_attempts=1, queue=queue)
        store.fail(store.dequeue("one", [queue], 1).requests, [Failure("no")])
    assert sorted((to, payload["kind"]) for to, payload in reports(store)) == [
        ("alarms", "fly"),
        ("desk", "act"),
    ]


def test_of_a_kind_that_is_given_twice_the_last_task_counts(store: Session) -> None:
    store.configure_queue("desk")
    store._call(
        "set_dead_letter_tasks",
        p_queue_names=["default", "default"],
        p_kinds=["act", "act", "fly", "fly"],
        p_task_queues=["alarms", "desk", "alarms", None],
        p_task_kinds=["report", "report", "report", None],
    )
    for kind in ("act", "fly"):
        store.put(kind=kind, max_attempts=1)
        store.fail(store.claim(), [Failure("no")])
    assert [(to, payload["kind"]) for to, payload in reports(store)] == [("desk", "act")]


def test_a_queue_that_is_deleted_takes_its_tasks_along(store: Session) -> None:
    store.configure_queue("other")
    store.set_dead_letter_tasks(["other"], {"act": ("alarms", "report")})
    store.delete_queue("other")
    store.configure_queue("other")
    store.put(kind="act", max_attempts=1, queue="other")
    store.fail(store.dequeue("one", ["other"], 1).requests, [Failure("no")])
    assert reports(store) == []


def test_a_task_of_a_queue_that_is_gone_is_left_out(store: Session) -> None:
    store.delete_queue("alarms")
    store.put(kind="act", max_attempts=1)
    assert store.fail(store.claim(), [Failure("no")]) == [Outcome.OK]
    assert reports(store) == []
