"""Queues: shown with their settings, and deleted when nothing uses them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlease.errors import InvalidRequest, StoreConflict
from rowlease.model import Failure
from tests.contract.sessions import Clock, Session

IN_USE = r'^queue "web" cannot be deleted, because '


@pytest.fixture
def web(store: Session) -> Session:
    store.configure_queue("web", capacity=7, policy="weighted", policy_weights=[1, 2])
    return store


def names(store: Session) -> list[str]:
    return [each.queue_name for each in store.list_queues()]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_calls_that_create_a_queue_at_once_create_one(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    other = another()
    store.begin()
    store.configure_queue("new", capacity=3)
    second = other.waiting(lambda: other.configure_queue("new", max_attempts=2))
    getattr(store, ending)()
    capacity = 3 if ending == "commit" else None
    assert (second.result()["capacity"], second.result()["max_attempts"]) == (capacity, 2)


def heartbeat(store: Session, *queues: str) -> None:
    store.worker_heartbeat("w1", host="h", pid=1, version="1", queues=queues, slots=1, busy=0)


def put_and_failed(store: Session) -> None:
    store.put(queue="web")
    held = store.dequeue("one", ["web"], 1).requests
    store.fail(held, [Failure("x", dead=True)])


#: What may be in a queue, and what the refusal says of it.
REQUESTS: dict[str, tuple[Callable[[Session], Any], str]] = {
    "scheduled": (lambda s: s.put(queue="web", delay=timedelta(hours=1)), "1 waiting"),
    "pending": (lambda s: s.put(3, "web"), "3 waiting, 0 running, 0 failed"),
    "processing": (
        lambda s: (s.put(queue="web"), s.dequeue("one", ["web"], 1)),
        "0 waiting, 1 running",
    ),
    "failed": (put_and_failed, "1 failed"),
    "blocked": (
        lambda s: (s.put(2, "web", group_key="g"), s.dequeue("one", ["web"], 1)),
        "1 waiting, 1 running",
    ),
}
#: Who else may use it.
OTHERS: dict[str, tuple[Callable[[Session], Any], str]] = {
    "schedule": (
        lambda s: s.put_schedule("nightly", "0 3 * * *", "k", queue="web"),
        'the schedule "nightly" enqueues into it: remove the schedule first',
    ),
    "load": (
        lambda s: s.begun("flights", queue="web"),
        'the load "flights" is staged for it: promote or discard the load first',
    ),
    "worker": (
        lambda s: heartbeat(s, "default", "web"),
        'the worker "w1" claims from it: stop the worker first',
    ),
}


def test_a_queue_shows_all_its_settings(web: Session) -> None:
    found = web.show_queue("web")
    assert found == web.configure_queue("web")
    assert (found["capacity"], found["policy"], found["policy_weights"]) == (7, "weighted", [1, 2])
    assert (found["paused"], found["max_in_flight"], found["max_attempts"]) == (False, None, 5)


def test_a_queue_that_does_not_exist_is_neither_shown_nor_deleted(store: Session) -> None:
    for call in (store.show_queue, store.delete_queue):
        with pytest.raises(
            InvalidRequest, match=r'^queue "nowhere" does not exist; create it with'
        ):
            call("nowhere")


def test_a_queue_is_deleted_with_its_counts_and_can_be_created_again(web: Session) -> None:
    web.put(queue="web")
    web.complete(web.dequeue("one", ["web"], 1).requests)
    web.delete_queue("web", dry_run=True)
    assert names(web) == ["default", "web"]
    web.delete_queue("web")
    assert names(web) == ["default"]
    assert web.rows("queue_depth", "queue_name", queue_name="web") == []
    assert web.rows("queue_history", "queue_name") == [("web",)]
    with pytest.raises(InvalidRequest, match="does not exist"):
        web.put(queue="web")
    assert web.configure_queue("web")["capacity"] is None
    web.put(queue="web")
    assert [depth.pending for depth in web.depth("web")] == [1]


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("state", [*REQUESTS, *OTHERS])
def test_a_queue_in_use_is_not_deleted(web: Session, state: str, dry_run: bool) -> None:
    use, reason = {**REQUESTS, **OTHERS}[state]
    use(web)
    before = web.everything()
    with pytest.raises(InvalidRequest, match=IN_USE) as refused:
        web.delete_queue("web", dry_run=dry_run)
    assert reason in str(refused.value)
    assert (names(web), web.everything()) == (["default", "web"], before)


@pytest.mark.parametrize("state", ["scheduled", "pending", "failed"])
def test_a_queue_may_be_deleted_with_its_requests(web: Session, state: str) -> None:
    REQUESTS[state][0](web)
    before = web.everything()
    would = web.delete_queue("web", purge=True, dry_run=True)
    assert web.everything() == before
    assert web.delete_queue("web", purge=True) == would == (3 if state == "pending" else 1)
    assert (names(web), web.everything()) == (["default"], [])


def test_a_queue_is_deleted_with_its_requests_behind_many_of_another(web: Session) -> None:
    web.put(3, queue="web")
    web.fill(10_001)
    assert web.delete_queue("web", purge=True, dry_run=True) == 3
    assert web.delete_queue("web", purge=True) == 3
    assert names(web) == ["default"]


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("state", ["processing", "blocked", *OTHERS])
def test_if_a_queue_cannot_be_deleted_its_requests_stay(
    web: Session, state: str, dry_run: bool
) -> None:
    {**REQUESTS, **OTHERS}[state][0](web)
    web.put(queue="web")
    before = web.everything()
    with pytest.raises(InvalidRequest, match=IN_USE):
        web.delete_queue("web", purge=True, dry_run=dry_run)
    assert (names(web), web.everything()) == (["default", "web"], before)


def test_what_uses_another_queue_is_in_nobodys_way(web: Session) -> None:
    web.put()
    web.put_schedule("nightly", "0 3 * * *", "k")
    web.begun("flights")
    heartbeat(web, "default")
    web.delete_queue("web")
    assert names(web) == ["default"]


def test_a_worker_that_has_not_been_heard_of_for_long_is_not_live(
    web: Session, clock: Clock
) -> None:
    heartbeat(web, "web")
    clock.advance(seconds=31)
    web.delete_queue("web")
    assert names(web) == ["default"]


def test_a_limit_in_flight_holds_in_a_queue_that_is_created_again(web: Session) -> None:
    web.delete_queue("web")
    web.configure_queue("web", max_in_flight=1)
    web.put(2, "web")
    assert len(web.dequeue("one", ["web"], 2).requests) == 1
    assert web.dequeue("two", ["web"], 2).requests == []


@pytest.mark.only_on("postgresql", why="there alone a reader of settings can be waited for")
def test_a_queue_is_not_deleted_while_an_enqueue_is_not_committed(
    web: Session, another: Callable[[], Session]
) -> None:
    producer = another()
    producer.begin()
    producer.put(queue="web")
    with pytest.raises(StoreConflict, match="another transaction was still using queues"):
        web.delete_queue("web")
    producer.commit()
    with pytest.raises(InvalidRequest, match="1 waiting"):
        web.delete_queue("web")


#: Calls after which something would be in a queue that is gone.
INTO_A_QUEUE: dict[str, Callable[[Session, str], Any]] = {
    "enqueue": lambda s, queue: s.put(queue=queue),
    "enqueue many": lambda s, queue: s.put(2, queue),
    "enqueue a key": lambda s, queue: s.put(queue=queue, dedup_key="k"),
    "insert into the inbox": lambda s, queue: s.execute(
        "insert into rowlease.inbox (queue_name, kind) values (%s, 'a')", (queue,)
    ),
    "put a schedule": lambda s, queue: s.put_schedule("nightly", "0 3 * * *", "k", queue=queue),
    "begin a load": lambda s, queue: s.begun(f"into {queue}", queue=queue),
}


@pytest.mark.only_on("postgresql", why="there alone a reader of settings can be waited for")
@pytest.mark.parametrize("capacity", [7, None])
@pytest.mark.parametrize("name", INTO_A_QUEUE)
def test_a_call_waits_for_a_delete_and_then_finds_no_queue(
    web: Session, another: Callable[[], Session], name: str, capacity: int | None
) -> None:
    web.configure_queue("web", capacity=capacity)
    caller = another()
    INTO_A_QUEUE[name](caller, "default")  # the first call of a session waits where it is compiled
    before = web.everything()
    web.begin()
    web.delete_queue("web")
    call = caller.waiting(lambda: INTO_A_QUEUE[name](caller, "web"))
    web.commit()
    with pytest.raises((InvalidRequest, psycopg.Error), match="does not exist"):
        call.result()
    assert web.everything() == before
