"""Promise 8: an idle worker is notified, and no notification is sent while no worker is idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from rowlease.model import Failure, NewRequest
from tests.contract.sessions import Clock, Session

Another = Callable[[], Session]
Emitted = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _has_notifications(store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")


@pytest.fixture
def emitted(store: Session) -> Emitted:
    """The queues that were notified since the last call."""
    return store.listening()


@pytest.fixture
def idle(store: Session) -> Iterator[None]:
    """A worker is idle on the queue `default`."""
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        yield


@pytest.mark.parametrize("count", [1, 100])
def test_an_enqueue_notifies_once_while_a_worker_is_idle(
    store: Session, emitted: Emitted, idle: None, count: int
) -> None:
    store.put(count)
    assert emitted() == ["default"]


@pytest.mark.parametrize("count", [1, 100])
def test_an_enqueue_does_not_notify_while_no_worker_is_idle(
    store: Session, emitted: Emitted, count: int
) -> None:
    store.put(count)
    assert emitted() == []


def test_a_worker_can_retract_that_it_is_idle(store: Session, emitted: Emitted) -> None:
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        listener.announce_idle(False)
        store.put()
        assert emitted() == []


def test_announcing_idleness_twice_is_the_same_as_once(store: Session, emitted: Emitted) -> None:
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        listener.announce_idle(True)
        listener.announce_idle(False)
        store.put()
        assert emitted() == []


def test_a_connection_that_ends_is_not_idle(store: Session, another: Another) -> None:
    sleeper = another()
    sleeper.execute("select rowlease.announce_idle('{default}', true)")
    sleeper.kill()
    emitted = store.listening()
    store.put()
    assert emitted() == []


def test_an_idle_worker_is_notified_though_another_session_holds_its_lock(
    store: Session, emitted: Emitted
) -> None:
    with store.squatting("default"), closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        store.put()
        assert emitted() == ["default"]
        listener.announce_idle(False)


def test_a_worker_that_wakes_leaves_another_one_idle(store: Session, emitted: Emitted) -> None:
    with (
        closing(store.listen(["default"])) as first,
        closing(store.listen(["default"])) as second,
    ):
        first.announce_idle(True)
        second.announce_idle(True)
        first.announce_idle(False)
        store.put()
        assert emitted() == ["default"]


@pytest.mark.new_database
def test_idleness_writes_no_row(store: Session, idle: None) -> None:
    cost = store.measured(lambda: store.execute("select rowlease.announce_idle('{x}', true)"))
    assert cost.pages == {}
    assert store.rows("worker", "*") == []


def test_idleness_counts_for_the_announced_queues_only(
    store: Session, emitted: Emitted, idle: None
) -> None:
    store.configure_queue("other")
    emitted()
    store.put(queue="other")
    assert emitted() == []
    store.put(queue="default")
    assert emitted() == ["default"]


def test_a_callers_transaction_notifies_once(
    store: Session, another: Another, emitted: Emitted, idle: None
) -> None:
    caller = another()
    caller.begin()
    for _ in range(3):
        store.enqueue_many("default", [NewRequest(kind="a")] * 2, connection=caller.raw)  # type: ignore[attr-defined]
    assert emitted() == []
    caller.commit()
    assert emitted() == ["default"]


@pytest.mark.parametrize("how", ["routine", "with keys", "delayed", "inbox", "inbox with keys"])
def test_a_callers_transaction_looks_for_idle_workers_when_it_commits(
    store: Session, another: Another, emitted: Emitted, how: str
) -> None:
    """The commit may be far away, and a worker may become idle before it."""
    caller, busy = another(), another()
    for each in (caller, busy):
        each.begin()
        match how:
            case "routine":
                each.execute("select rowlease.enqueue('default', 'a')")
            case "with keys":
                each.execute("select rowlease.enqueue('default', 'a', p_group_key => 'g')")
            case "delayed":
                each.execute("select rowlease.enqueue('default', 'a', p_delay_ms => 9000)")
            case "inbox":
                each.insert_many("inbox", [{"kind": "a"}] * 10)
            case "inbox with keys":
                each.insert("inbox", kind="a", dedup_key=str(id(each)))
    busy.commit()
    assert emitted() == []
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        caller.commit()
        assert emitted() == ["default"]


def test_a_callers_transaction_does_not_notify_while_no_worker_is_idle_at_its_commit(
    store: Session, another: Another, emitted: Emitted
) -> None:
    caller = another()
    caller.begin()
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        caller.execute("select rowlease.enqueue('default', 'a')")
        caller.execute("select rowlease.enqueue_many('default', array['a'], array['{}'])")
        caller.insert("inbox", kind="a")
        listener.announce_idle(False)
    caller.commit()
    assert emitted() == []


def test_a_callers_transaction_notifies_for_each_of_its_queues(
    store: Session, another: Another, emitted: Emitted
) -> None:
    store.configure_queue("other")
    emitted()
    caller = another()
    with closing(store.listen(["default", "other"])) as listener:
        listener.announce_idle(True)
        caller.begin()
        for queue in ("default", "other", "default"):
            caller.execute("select rowlease.enqueue(%s, 'a')", [queue])
        caller.execute("savepoint before")
        caller.insert("inbox", queue_name="other", kind="a")
        caller.execute("rollback to savepoint before")
        caller.commit()
    assert emitted() == ["default", "other"]


def test_a_caller_with_immediate_constraints_notifies_for_what_follows_too(
    store: Session, another: Another, emitted: Emitted
) -> None:
    caller = another()
    caller.begin()
    caller.execute("set constraints all immediate")
    caller.execute("select rowlease.enqueue('default', 'a')")
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        caller.execute("select rowlease.enqueue('default', 'a')")
        caller.commit()
        assert emitted() == ["default"]


def test_a_callers_transaction_that_is_rolled_back_does_not_notify(
    store: Session, another: Another, emitted: Emitted, idle: None
) -> None:
    caller = another()
    caller.begin()
    caller.execute("select rowlease.enqueue('default', 'a')")
    caller.rollback()
    assert emitted() == []
    store.put()
    assert emitted() == ["default"]


@pytest.mark.parametrize("how", ["own", "caller's"])
def test_of_concurrent_enqueues_one_notifies(
    store: Session, another: Another, emitted: Emitted, idle: None, how: str
) -> None:
    """Transactions that notify commit one after the other, so the others do not notify."""
    first, second = another(), another()
    enqueue = "select rowlease.enqueue('default', 'a', p_in_transaction => false)"
    first.begin()
    first.execute(enqueue)
    if how == "own":
        second.execute(enqueue)
    else:
        second.execute("select rowlease.enqueue('default', 'a')")
    assert emitted() == []
    first.commit()
    assert emitted() == ["default"]
    second.execute(enqueue)
    assert emitted() == ["default"]


def test_enqueues_into_two_queues_both_notify(
    store: Session, another: Another, emitted: Emitted
) -> None:
    store.configure_queue("other")
    emitted()
    first = another()
    with closing(store.listen(["default", "other"])) as listener:
        listener.announce_idle(True)
        first.begin()
        first.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
        store.put(queue="other")
        assert emitted() == ["other"]
        first.commit()
        assert emitted() == ["default"]


@pytest.mark.both_ways
def test_a_claim_that_may_miss_a_commit_without_notification_is_to_be_repeated_soon(
    store: Session, another: Another, emitted: Emitted, idle: None
) -> None:
    first, second, worker = another(), another(), another()
    enqueue = "select rowlease.enqueue('default', 'a', p_in_transaction => false)"
    for each in (first, second):
        each.begin()
        each.execute(enqueue)
    first.commit()
    assert emitted() == ["default"]
    claim = worker.dequeue("one", ["default"], 9)
    assert (len(claim.requests), claim.more, claim.wait) == (1, False, timedelta(seconds=0.02))
    second.commit()
    assert emitted() == []
    claim = worker.dequeue("one", ["default"], 9, floor=claim.floor)
    assert (len(claim.requests), claim.wait) == (1, timedelta(seconds=30))


def test_an_enqueue_that_is_rolled_back_leaves_the_next_one_to_notify(
    store: Session, another: Another, emitted: Emitted, idle: None
) -> None:
    first = another()
    first.begin()
    first.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
    first.rollback()
    store.put()
    assert emitted() == ["default"]


def test_an_enqueue_whose_transaction_stays_open_keeps_others_from_notifying_for_a_moment_only(
    store: Session, another: Another, emitted: Emitted, idle: None, clock: Clock
) -> None:
    first = another()
    first.begin()
    first.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
    store.put()
    assert emitted() == []
    clock.advance(seconds=1)
    store.put()
    assert emitted() == ["default"]


def test_concurrent_enqueues_notify_though_another_session_holds_every_lock(
    store: Session, another: Another, emitted: Emitted
) -> None:
    first = another()
    with store.squatting("default"):
        first.begin()
        first.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
        store.put()
        assert emitted() == ["default"]


def test_an_insert_into_the_inbox_notifies_once(
    store: Session, emitted: Emitted, idle: None
) -> None:
    store.insert_many("inbox", [{"kind": "a"}] * 10)
    assert emitted() == ["default"]


def test_a_successor_notifies_once(store: Session, emitted: Emitted) -> None:
    store.configure_queue("other")
    store.put()
    held = store.claim()[0]
    with closing(store.listen(["other"])) as listener:
        listener.announce_idle(True)
        emitted()
        store.complete_and_enqueue(held, None, "other", NewRequest(kind="next"))
        assert emitted() == ["other"]


def test_a_load_notifies_once(store: Session, emitted: Emitted) -> None:
    run = store.staged("load", [{}] * 10)
    assert emitted() == []
    store.promote("load", run, 10)
    assert emitted() == ["default"]


def test_a_thousand_enqueues_do_not_notify_while_no_worker_is_idle(
    store: Session, emitted: Emitted
) -> None:
    store.execute(
        "do $$ begin for i in 1..1000 loop"
        " perform rowlease.enqueue('default', 'a', p_in_transaction => false);"
        " commit; end loop; end $$"
    )
    assert emitted() == []
    assert len(store.rows("queue", "request_id")) == 1000


@pytest.mark.parametrize("how", ["abandon", "retry at once", "resume", "requeue", "unblock"])
def test_a_request_that_can_run_again_notifies(
    store: Session, emitted: Emitted, idle: None, how: str
) -> None:
    first, _ = store.put(2, group_key="g")
    leased = store.claim()
    emitted()
    match how:
        case "abandon":
            store.abandon(leased)
        case "retry at once":
            store.fail(leased, [Failure("x", after=timedelta(0))])
        case "resume":
            store.pause("default")
            emitted()
            store.resume("default")
        case "requeue":
            store.fail(leased, [Failure("x", dead=True)])
            emitted()
            store.requeue([first])
        case "unblock":
            store.complete(leased)
    assert emitted() == ["default"]


def test_an_abandoned_request_does_not_notify_while_no_worker_is_idle(
    store: Session, emitted: Emitted
) -> None:
    store.put()
    store.abandon(store.claim())
    assert emitted() == []


@pytest.mark.parametrize("how", ["scheduled", "retry", "expired"])
def test_maintain_notifies_for_requests_that_it_moves(
    store: Session, emitted: Emitted, idle: None, clock: Clock, how: str
) -> None:
    if how == "scheduled":
        store.put(delay=timedelta(seconds=20))
    else:
        store.put()
        leased = store.claim()
        if how == "retry":
            store.fail(leased, [Failure("x", after=timedelta(seconds=20))])
    emitted()
    store.maintain()
    assert emitted() == []
    clock.advance(seconds=31)
    store.maintain()
    assert emitted() == ["default"]


def test_an_end_does_not_notify(store: Session, emitted: Emitted, idle: None) -> None:
    store.put(4)
    emitted()
    done, cancelled, failed, retried = store.claim(limit=4)
    store.complete([done])
    store.cancel([cancelled.request_id])
    store.fail([failed], [Failure("x", dead=True)])
    store.fail([retried], [Failure("x")])
    store.renew([cancelled])
    store.purge()
    store.maintain()
    assert emitted() == []


def test_the_claim_after_the_announcement_finds_a_request_that_was_not_notified(
    store: Session, another: Another, emitted: Emitted
) -> None:
    """A producer checks for idle workers before its commit, so a worker claims after announcing."""
    producer = another()
    producer.begin()
    producer.execute("select rowlease.enqueue('default', 'a', p_in_transaction => false)")
    floor = store.dequeue("one", ["default"], 1).floor
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        producer.commit()
        assert emitted() == []
        assert len(store.claim(floor=floor)) == 1


def test_an_enqueue_after_the_announcement_notifies(store: Session, emitted: Emitted) -> None:
    with closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        assert store.claim() == []
        store.put()
        assert emitted() == ["default"]


def test_a_listener_is_notified_for_its_queues_only(store: Session) -> None:
    store.configure_queue("other")
    with closing(store.listen(["other"])) as listener:
        listener.announce_idle(True)
        store.promote("load", store.staged("load", [{}]), 1)
        assert not listener.wait(timedelta(0))
        store.put(queue="other")
        assert listener.wait(timedelta(seconds=30))


def test_producers_and_workers_have_separate_notifications(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    room = store.listening(room=True)
    with closing(store.listen(["default"])) as work:
        work.announce_idle(True)
        store.put()
        assert work.wait(timedelta(seconds=30))
        assert room() == []
        store.enqueue_many("default", [NewRequest(kind="a")], wait=timedelta(seconds=9))
        store.claim()
        assert room() == ["default"]
        assert not work.wait(timedelta(0))


def test_the_end_of_a_batch_notifies_the_workers_of_what_waits_for_it(
    store: Session, emitted: Emitted, idle: None
) -> None:
    store.configure_queue("mail")
    store.enqueue_many("mail", [NewRequest(kind="a")], batch_id="b")
    store.enqueue_many("default", [NewRequest(kind="a")], after="b")
    store.complete(store.dequeue("w", ["mail"], 1).requests)
    emitted()
    store.finish_batches("b")
    assert emitted() == ["default"]
