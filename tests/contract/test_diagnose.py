"""What `diagnose` finds: each ailment by its name, and nothing where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from rowlease.model import Failure, NewRequest
from tests.contract.sessions import Clock, Session


def beat(store: Session, name: str = "one", *, busy: int = 0, **more: object) -> None:
    given = {"kinds": {"a": "app.a()"}, **more}
    store.worker_heartbeat(
        name, host="h", pid=1, version="1", queues=["default"], slots=2, busy=busy,
        **given,  # type: ignore[arg-type]
    )  # fmt: skip


def healthy(store: Session, clock: Clock) -> None:
    """Requests wait, run, failed, are scheduled and finished, and a worker is alive."""
    store.configure_queue("default", capacity=10, max_in_flight=2)
    store.put(3)
    store.put(2, group_key="g")
    store.put(delay=timedelta(hours=1))
    store.put_schedule("s", "0 * * * *", "a")
    store.begun("mail")
    store.configure_queue("empty")
    store.pause("empty")
    store.complete(store.claim())
    store.claim()
    clock.advance(seconds=20)
    beat(store)


def test_nothing_is_wrong_with_a_healthy_database(store: Session, clock: Clock) -> None:
    assert store.diagnose() == []
    healthy(store, clock)
    assert store.diagnose() == []


def test_a_backlog_that_is_worked_through_is_not_stuck(store: Session, clock: Clock) -> None:
    store.put(3)
    clock.advance(seconds=90)
    store.claim()
    beat(store, busy=1)
    assert store.diagnose() == []
    clock.advance(seconds=61)
    store.renew(store.claim())
    beat(store, busy=1)
    assert store.diagnose() == []


def paused(store: Session, clock: Clock) -> None:
    store.put(2)
    store.pause("default")


def full(store: Session, clock: Clock) -> None:
    store.configure_queue("default", capacity=2)
    store.put()
    store.put(delay=timedelta(hours=1))
    beat(store)


def stuck(store: Session, clock: Clock) -> None:
    store.put()
    clock.advance(seconds=90)
    beat(store, busy=1)


def old(store: Session, clock: Clock) -> None:
    store.put()
    clock.advance(hours=2)
    beat(store, busy=2)


def old_while_others_run(store: Session, clock: Clock) -> None:
    store.put(2)
    clock.advance(hours=2)
    store.claim()
    beat(store)


def old_in_flight(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_in_flight=1)
    store.put(2)
    held = store.claim()
    clock.advance(hours=2)
    store.renew(held)
    beat(store)


def old_in_lane(store: Session, clock: Clock) -> None:
    run = store.begun("x")
    store.lay("x", run, [{"kind": "a"}])
    store.promote("x", run, 1)
    clock.advance(hours=1)
    store.put()
    clock.advance(hours=1)
    beat(store, busy=2)


def no_worker(store: Session, clock: Clock) -> None:
    store.put(2)
    beat(store)
    clock.advance(seconds=31)


def no_worker_for_hours(store: Session, clock: Clock) -> None:
    store.put(2)
    beat(store)
    clock.advance(hours=2)


def load(store: Session, clock: Clock) -> None:
    store.begun("mail")
    clock.advance(minutes=16)


def unknown_kind(store: Session, clock: Clock) -> None:
    store.put()
    store.put(kind="resize", priority=3)
    beat(store)
    store.decline(store.claim(), ["unknown kind"])  # it is due again a moment later


def consumer_priority(store: Session, clock: Clock) -> None:
    store.put()
    beat(store)
    beat(store, "high", consumer_priority=5, kinds={"resize": "app.resize()"})


def overdue(store: Session, clock: Clock) -> None:
    store.put(2)
    store.claim(limit=2)
    clock.advance(seconds=41)
    beat(store)


def group(store: Session, clock: Clock) -> None:
    first, _ = store.put(2, group_key="g")
    beat(store)
    store.remove("queue", request_id=first)
    store.insert("queue_depth", queue_name="default", priority=0, pending=-1)


def counts(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    store.put(priority=3)
    beat(store)
    store.remove("queue", request_id=request)


def counts_of_other_priorities(store: Session, clock: Clock) -> None:
    store.put()
    store.put(priority=3)
    beat(store)
    for priority, change in ((0, 1), (3, -1)):
        store.insert("queue_depth", queue_name="default", priority=priority, pending=change)


def counts_of_a_large_queue(store: Session, clock: Clock) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")] * 10)
    store.insert("queue_depth", queue_name="default", priority=0, pending=20_000, failed=-1)
    beat(store)


def schedule(store: Session, clock: Clock) -> None:
    late: datetime = clock.now - timedelta(minutes=2)
    store.put_schedule("s", "0 * * * *", "tidy")
    (due,) = store.claim_schedules("one").due
    store.fire_schedule("s", due.lock_token, [], late)
    beat(store)


def dead_letters(store: Session, clock: Clock) -> None:
    store.maintain()
    store.put(3)
    store.fail(store.claim(), [Failure("no", dead=True)])
    clock.advance(days=1)
    store.maintain()
    store.fail(store.claim(limit=2), [Failure("no", dead=True)] * 2)


AILMENTS: dict[str, tuple[Callable[[Session, Clock], None], str, str]] = {
    "paused": (paused, 'the queue "default" is paused, and 2 requests wait', "queue resume"),
    "full": (
        full,
        "is full: 2 of 2 places are taken",
        "raise its capacity: rowlease queue set default capacity=4",
    ),
    "stuck": (stuck, "has been due for 00:01:30, while live workers have 1 free slot", "explain"),
    "old": (old, "due for 02:00:00, and live workers do not keep up", "add workers"),
    "old, short tasks": (old_while_others_run, "and live workers do not keep up", "add workers"),
    "old, in flight": (old_in_flight, "and the in-flight limit is reached", "max_in_flight=2"),
    "old, lane": (
        old_in_lane,
        "due for 02:00:00, and live workers do not keep up",
        "add workers",
    ),
    "no_worker": (no_worker, "no worker of the queue", "start a worker"),
    "no_worker, old": (no_worker_for_hours, "no worker of the queue", "start a worker"),
    "load": (load, 'the load "mail" has reported nothing since', "discard_load"),
    "unknown_kind": (unknown_kind, 'knows the kind "resize"', "start a worker with this task"),
    "consumer_priority": (consumer_priority, 'worker "high" has free slots', "give that worker"),
    "overdue": (overdue, "were not broken (2, the first of", "start a worker"),
    "group": (group, "no longer exists (1, the first for", "recount"),
    "counts": (counts, 'the counts of the queue "default" differ', "recount"),
    "counts, priorities": (counts_of_other_priorities, "differ from its rows", "recount"),
    "counts, large": (counts_of_a_large_queue, "differ from its rows", "recount"),
    "dead_letters": (
        dead_letters,
        "has 3 dead letters, 2 more than when the day began",
        "rowlease requests requeue queue:default",
    ),
    "schedule": (schedule, 'the schedule "s" did not fire at', "its log says why"),
}


@pytest.mark.parametrize("name", AILMENTS)
def test_an_ailment_is_named_and_nothing_else(name: str, store: Session, clock: Clock) -> None:
    prepare, says, action = AILMENTS[name]
    prepare(store, clock)
    (found,) = store.diagnose()
    assert found.finding == name.partition(",")[0]
    assert found.subject == {"schedule": "s", "load": "mail"}.get(name, "default")
    assert says in found.message
    assert action in found.action


def test_a_queue_is_named_though_its_name_looks_like_markup(store: Session) -> None:
    store.configure_queue("a & b </c>")
    store.put(2, "a & b </c>")
    store.pause("a & b </c>")
    (found,) = store.diagnose()
    assert (found.finding, found.subject) == ("paused", "a & b </c>")
    assert '"a & b </c>"' in found.message


def test_a_clock_that_is_off_is_named(store: Session, clock: Clock) -> None:
    """A database may have other findings: it may lack READ_COMMITTED_SNAPSHOT."""

    def found(by: timedelta) -> list[str]:
        every = store.diagnose_server(clock.now + by)
        return [one.message for one in every if one.finding == "clock"]

    assert found(timedelta(seconds=4)) == []
    says = "the clock of this client is 90.5 s {} the database's"
    assert found(timedelta(seconds=90.5)) == [says.format("ahead of")]
    assert found(timedelta(seconds=-90.5)) == [says.format("behind")]
    assert [one for one in store.diagnose_server() if one.finding == "clock"] == []


@pytest.mark.only_on("postgresql", why="a test cannot write into a database that it locks up")
def test_a_database_that_refuses_changes_is_named(
    store: Session, another: Callable[[], Session]
) -> None:
    ((name,),) = store.execute("select current_database()")
    store.execute(f"alter database {name} set default_transaction_read_only = on")
    try:
        (found,) = (one for one in another().diagnose_server() if one.finding == "read_only")
    finally:
        store.execute(f"alter database {name} reset default_transaction_read_only")
    assert found.message.endswith("read-only, so nothing can be enqueued, claimed or finished")
    assert found.action == f"alter database {name} reset default_transaction_read_only"
    assert not [one for one in another().diagnose_server() if one.finding == "read_only"]


def test_sessions_can_be_asked_about(store: Session) -> None:
    assert store.diagnose_sessions() == []


def test_a_gate_that_a_session_holds_is_named(
    store: Session, another: Callable[[], Session]
) -> None:
    store.configure_queue("default", max_in_flight=2)
    store.put()
    beat(store)
    dba = another()
    dba.begin()
    dba.hold_gate("default")
    (found,) = store.diagnose()
    assert found.finding == "gate"
    assert 'the gate of the queue "default"' in found.message
    assert "pid" not in found.action
    dba.rollback()
    assert store.diagnose() == []


@pytest.mark.only_on("postgresql", why="elsewhere only an administrator may see who locks a table")
@pytest.mark.parametrize("mode", ["share", "access exclusive"])
def test_a_table_that_a_session_has_locked_is_named(
    store: Session, another: Callable[[], Session], mode: str
) -> None:
    store.put()
    beat(store)
    dba = another()
    dba.begin()
    dba.execute(f"lock table rowlease.queue in {mode} mode")
    (found,) = store.diagnose()
    assert found.finding == "table_lock"
    assert dba.names_itself_in(found.message)
    ((pid,),) = dba.execute("select pg_backend_pid()")
    assert found.action.endswith(f"select pg_terminate_backend({pid})")
