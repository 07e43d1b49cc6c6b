"""Promise 8: an idle worker is woken, and nobody rings while no one is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from rowlease.model import Failure, NewRequest
from tests.contract.sessions import Clock, Session

Another = Callable[[], Session]
Heard = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _a_bell(store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine has no bell")


@pytest.fixture
def heard(store: Session) -> Heard:
    """For which queues the bell rang since the last call."""
    return store.listening()


@pytest.fixture
def idle(store: Session) -> Iterator[None]:
    """A worker sleeps on the queue `default`."""
    with closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        yield


@pytest.mark.parametrize("count", [1, 100])
def test_an_enqueue_rings_once_while_somebody_is_idle(
    store: Session, heard: Heard, idle: None, count: int
) -> None:
    store.put(count)
    assert heard() == ["default"]


@pytest.mark.parametrize("count", [1, 100])
def test_an_enqueue_does_not_ring_while_nobody_is_idle(
    store: Session, heard: Heard, count: int
) -> None:
    store.put(count)
    assert heard() == []


def test_nobody_is_idle_any_more_who_has_said_so(store: Session, heard: Heard) -> None:
    with closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        bell.announce_idle(False)
        store.put()
        assert heard() == []


def test_who_is_idle_twice_is_idle_once(store: Session, heard: Heard) -> None:
    with closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        bell.announce_idle(True)
        bell.announce_idle(False)
        store.put()
        assert heard() == []


def test_a_connection_that_ends_is_not_idle(store: Session, another: Another) -> None:
    sleeper = another()
    sleeper.execute("select rowlease.announce_idle('{default}', true)")
    sleeper.kill()
    heard = store.listening()
    store.put()
    assert heard() == []


def test_who_falls_asleep_hears_the_bell_though_a_stranger_holds_its_lock(
    store: Session, heard: Heard
) -> None:
    with store.squatting("default"), closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        store.put()
        assert heard() == ["default"]
        bell.announce_idle(False)


def test_one_of_two_that_wakes_leaves_the_other_idle(store: Session, heard: Heard) -> None:
    with (
        closing(store.doorbell(["default"])) as first,
        closing(store.doorbell(["default"])) as second,
    ):
        first.announce_idle(True)
        second.announce_idle(True)
        first.announce_idle(False)
        store.put()
        assert heard() == ["default"]


@pytest.mark.new_database
def test_idleness_writes_no_row(store: Session, idle: None) -> None:
    cost = store.measured(lambda: store.execute("select rowlease.announce_idle('{x}', true)"))
    assert cost.pages == {}
    assert store.rows("worker", "*") == []


def test_idleness_is_of_the_queues_it_was_announced_for(
    store: Session, heard: Heard, idle: None
) -> None:
    store.configure_queue("other")
    heard()
    store.put(queue="other")
    assert heard() == []
    store.put(queue="default")
    assert heard() == ["default"]


def test_inside_a_callers_transaction_it_always_rings(
    store: Session, another: Another, heard: Heard
) -> None:
    """The commit may be far away, and somebody may fall asleep before it."""
    caller = another()
    caller.begin()
    for _ in range(3):
        store.enqueue_many("default", [NewRequest(kind="a")] * 2, connection=caller.raw)  # type: ignore[attr-defined]
    assert heard() == []
    caller.commit()
    assert heard() == ["default"]


def test_an_insert_into_the_inbox_always_rings_and_once(store: Session, heard: Heard) -> None:
    store.insert_many("inbox", [{"kind": "a"}] * 10)
    assert heard() == ["default"]


def test_a_load_rings_once(store: Session, heard: Heard) -> None:
    run = store.staged("load", [{"row_id": place, "kind": "a"} for place in range(10)])
    assert heard() == []
    store.promote("load", run, 10)
    assert heard() == ["default"]


def test_a_thousand_enqueues_do_not_ring_while_nobody_is_idle(store: Session, heard: Heard) -> None:
    store.execute(
        "do $$ begin for i in 1..1000 loop"
        " perform rowlease.enqueue('default', 'a', p_in_transaction => false);"
        " commit; end loop; end $$"
    )
    assert heard() == []
    assert len(store.rows("queue", "request_id")) == 1000


@pytest.mark.parametrize("how", ["abandon", "retry at once", "resume", "requeue", "unblock"])
def test_what_can_run_again_rings(store: Session, heard: Heard, idle: None, how: str) -> None:
    first, _ = store.put(2, group_key="g")
    leased = store.take()
    heard()
    match how:
        case "abandon":
            store.abandon(leased)
        case "retry at once":
            store.fail(leased, [Failure("x", after=timedelta(0))])
        case "resume":
            store.pause("default")
            heard()
            store.resume("default")
        case "requeue":
            store.fail(leased, [Failure("x", dead=True)])
            heard()
            store.requeue([first])
        case "unblock":
            store.complete(leased)
    assert heard() == ["default"]


@pytest.mark.parametrize("how", ["scheduled", "retry", "expired"])
def test_maintain_rings_for_what_it_moves(
    store: Session, heard: Heard, idle: None, clock: Clock, how: str
) -> None:
    if how == "scheduled":
        store.put(delay=timedelta(seconds=20))
    else:
        store.put()
        leased = store.take()
        if how == "retry":
            store.fail(leased, [Failure("x", after=timedelta(seconds=20))])
    heard()
    store.maintain()
    assert heard() == []
    clock.advance(seconds=31)
    store.maintain()
    assert heard() == ["default"]


def test_nothing_that_only_ends_rings(store: Session, heard: Heard, idle: None) -> None:
    store.put(4)
    heard()
    done, cancelled, failed, retried = store.take(limit=4)
    store.complete([done])
    store.cancel([cancelled.request_id])
    store.fail([failed], [Failure("x", dead=True)])
    store.fail([retried], [Failure("x")])
    store.renew([cancelled])
    store.purge("default")
    store.maintain()
    assert heard() == []


def test_a_producer_that_looked_before_and_commits_after_is_found_by_the_claim_that_follows(
    store: Session, another: Another, heard: Heard
) -> None:
    """The race that a look before the commit cannot close: the worker claims after announcing."""
    producer = another()
    producer.begin()
    producer.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
    floor = store.dequeue("one", ["default"], 1).floor
    with closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        producer.commit()
        assert heard() == []
        assert len(store.take(floor=floor)) == 1


def test_an_enqueue_after_the_announcement_rings(store: Session, heard: Heard) -> None:
    with closing(store.doorbell(["default"])) as bell:
        bell.announce_idle(True)
        assert store.take() == []
        store.put()
        assert heard() == ["default"]


def test_a_doorbell_rings_for_its_queues_alone(store: Session) -> None:
    store.configure_queue("other")
    with closing(store.doorbell(["other"])) as bell:
        bell.announce_idle(True)
        store.promote("load", store.staged("load", [{"row_id": 1, "kind": "a"}]), 1)
        assert not bell.wait(timedelta(0))
        store.put(queue="other")
        assert bell.wait(timedelta(seconds=30))


def test_the_producers_bell_is_another_than_the_workers(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    with (
        closing(store.doorbell(["default"])) as work,
        closing(store.doorbell(["default"], room=True)) as room,
    ):
        work.announce_idle(True)
        store.put()
        assert work.wait(timedelta(seconds=30))
        assert not room.wait(timedelta(0))
        store.enqueue_many("default", [NewRequest(kind="a")], wait=timedelta(seconds=9))
        store.take()
        assert room.wait(timedelta(seconds=30))
        assert not work.wait(timedelta(0))
