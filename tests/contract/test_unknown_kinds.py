"""Requests of kinds that a worker does not know are left to those that may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest, RoutineError
from rowlease.model import LeasedRequest, NewRequest, Outcome, SharedKind
from tests.contract import sessions
from tests.contract.sessions import Clock, Session

module_database, dsn = sessions.module_database, sessions.emptied_database

LONG = timedelta(seconds=600)
NOBODY = 'for 600 s no live worker of queue "default" has known kind "new"'


def beat(
    store: Session,
    worker: str = "two",
    kinds: Sequence[str] | None = ("new",),
    queue: str = "default",
    module: str = "app",
) -> None:
    known = None if kinds is None else {kind: f"{module}.{kind}()" for kind in kinds}
    store.worker_heartbeat(
        worker, host="h", pid=1, version="1", queues=[queue], slots=1, busy=0, kinds=known
    )


def decline(store: Session, held: Sequence[LeasedRequest] | None = None) -> list[bool]:
    """Lease one request and decline it."""
    held = store.claim("one") if held is None else held
    assert held
    answers, dead = store.decline(held, ["not known here"] * len(held))
    assert answers == [Outcome.OK] * len(held)
    return dead


def decline_until(store: Session, clock: Clock, seconds: int) -> list[bool]:
    """Decline the request again and again, the last time after so many seconds."""
    dead = decline(store)
    for step in [seconds % 30] * (seconds % 30 > 0) + [30] * (seconds // 30):
        clock.advance(seconds=step)
        dead = decline(store)
    return dead


def test_a_declined_request_is_due_again_a_little_later_and_no_attempt_is_counted(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(kind="new", max_attempts=1)
    for _ in range(3):
        assert decline(store) == [False]
        row = store.row(request)
        assert (row["status"], row["num_attempts"], row["num_crashes"]) == ("Scheduled", 0, 0)
        assert (row["num_abandons"], row["last_error"]) == (0, "not known here")
        assert (row["locked_by"], row["lock_expires_time"], row["started_time"]) == (None,) * 3
        assert row["due_time"] - clock.now == timedelta(seconds=1)
        assert store.depth() == store.counted()
        assert store.claim("one") == []
        clock.advance(seconds=1)
    (held,) = store.claim("two")
    assert store.complete([held]) == [Outcome.OK]
    assert store.row(request)["num_attempts"] == 1


@pytest.mark.parametrize(("unknown", "delay"), [(0, 1), (3, 1), (40, 10), (300, 30)])
def test_the_longer_it_is_unknown_the_later_it_is_due(
    store: Session, clock: Clock, unknown: int, delay: int
) -> None:
    (request,) = store.put(kind="new")
    decline_until(store, clock, unknown)
    assert store.row(request)["due_time"] - clock.now == timedelta(seconds=delay)


def test_others_leave_it_for_half_a_minute_to_a_live_worker_that_knows_it(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(kind="new")
    decline_until(store, clock, 300)
    clock.advance(seconds=30)
    beat(store)
    assert decline(store) == [False]
    assert store.row(request)["due_time"] - clock.now == timedelta(seconds=30)
    assert store.claim("one") == []
    clock.advance(seconds=30)
    assert len(store.claim("one")) == 1


def test_a_worker_that_knows_it_takes_it_at_once_in_its_place_in_line(
    store: Session, clock: Clock
) -> None:
    beat(store)
    ids = [store.put(kind="new", priority=priority)[0] for priority in (1, 0, 1)]
    due = store.row(ids[0])["due_time"]
    clock.advance(seconds=1)
    declined = store.claim("one", 2)
    assert decline(store, declined) == [False, False]
    ids.append(store.put(kind="new", priority=1)[0])
    assert store.demand("default") == 4
    assert [each.request_id for each in store.claim("two", 1)] == [ids[0]]
    assert store.row(ids[0])["due_time"] == due
    assert store.row(ids[2])["status"] == "Scheduled"
    assert [each.request_id for each in store.claim("two", 9)] == [ids[2], ids[3], ids[1]]
    assert store.depth() == store.counted()


def test_a_worker_takes_only_declined_requests_of_its_kinds(store: Session, clock: Clock) -> None:
    beat(store, "two", kinds=["new", "newer"])
    beat(store, "other", kinds=["other"])
    store.configure_queue("other")
    beat(store, "three", kinds=["new"], queue="other")
    new, other = store.put(kind="new")[0], store.put(kind="other")[0]
    (newer,) = store.put(kind="newer", priority=1)
    (elsewhere,) = store.put(kind="new", queue="other")
    decline(store, store.dequeue("one", ["default", "other"], 9).requests)
    assert [each.request_id for each in store.claim("two", 1)] == [newer]
    assert [each.request_id for each in store.claim("two", 9)] == [new]
    assert [each.request_id for each in store.claim("other", 9)] == [other]
    (held,) = store.dequeue("three", ["other"], 9).requests
    assert held.request_id == elsewhere


def test_a_new_worker_takes_what_nobody_knew(store: Session, clock: Clock) -> None:
    (request,) = store.put(kind="new")
    decline_until(store, clock, 300)
    beat(store)
    assert [each.request_id for each in store.claim("two")] == [request]


def test_a_declined_request_that_an_operator_moves_is_still_handed_on(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(kind="new")
    decline(store)
    store.operate("reprioritise", arguments={"priority": 3}, ids=[request])
    store.configure_queue("default", max_priority=2)
    beat(store)
    assert [each.priority for each in store.claim("two")] == [2]
    assert store.depth() == store.counted()


def test_two_workers_take_different_declined_requests(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    beat(store, "two")
    beat(store, "three")
    ids = store.put(count=4, kind="new")
    decline(store, store.claim("one", 4))
    other = another()
    store.begin()
    assert [each.request_id for each in store.claim("two", 2)] == ids[:2]
    found = [each.request_id for each in other.claim("three", 2)]
    store.commit()
    assert found == ids[2:]


def test_it_is_a_dead_letter_when_no_worker_has_known_it_for_long_enough(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(kind="new")
    assert decline_until(store, clock, 599) == [False]
    clock.advance(seconds=30)
    assert decline(store) == [True]
    row = store.row(request)
    assert (row["status"], row["last_error"], row["num_attempts"]) == ("Failed", NOBODY, 0)
    assert row["completion_time"] == clock.now
    assert store.depth() == store.counted()


@pytest.mark.parametrize("knows", ["the kind", "does not say"])
def test_while_a_live_worker_may_know_it_it_is_never_a_dead_letter(
    store: Session, clock: Clock, knows: str
) -> None:
    store.configure_queue("default", unknown_kind_seconds=0)
    store.put(kind="new")
    for _ in range(50):
        beat(store, kinds=["old", "new"] if knows == "the kind" else None)
        assert decline(store) == [False]
        clock.advance(seconds=30)


@pytest.mark.parametrize("why", ["another kind", "another queue", "silent"])
def test_who_does_not_know_it_here_and_now_does_not_save_it(
    store: Session, clock: Clock, why: str
) -> None:
    store.configure_queue("other")
    store.put(kind="new")
    decline(store)
    if why == "silent":
        beat(store)
        clock.advance(seconds=30)
        decline(store)
    start = clock.now
    dead = [False]
    while not dead[0]:
        clock.advance(seconds=30)
        assert clock.now - start <= LONG
        if why != "silent":
            beat(
                store,
                kinds=["new"] if why == "another queue" else ["ne", "news"],
                queue="other" if why == "another queue" else "default",
            )
        dead = decline(store)
    assert clock.now - start == LONG


@pytest.mark.only_on("postgresql", why="delete_queue locks all settings there")
def test_a_heartbeat_that_waits_for_the_end_of_a_queue_has_locked_none_of_its_kinds(
    store: Session, another: Callable[[], Session]
) -> None:
    store.put(kind="new")
    decline(store)
    other = another()
    store.begin()
    store.execute("lock table rowlease.queue_settings in access exclusive mode")
    heartbeat = other.waiting(lambda: beat(other))
    assert len(store.execute("select from rowlease.unknown_kind for update skip locked")) == 1
    store.commit()
    heartbeat.result(10)


def test_the_time_starts_again_when_a_worker_has_known_it_meanwhile(
    store: Session, clock: Clock
) -> None:
    store.put(kind="new")
    decline_until(store, clock, 590)
    beat(store)
    store.remove_worker("two")
    clock.advance(seconds=31)
    assert decline_until(store, clock, 599) == [False]


def test_time_without_a_claim_does_not_count(store: Session, clock: Clock) -> None:
    store.put(kind="new")
    decline(store)
    clock.advance(days=7)
    assert decline(store) == [False]


def test_the_time_is_a_setting_of_the_queue(store: Session, clock: Clock) -> None:
    assert store.configure_queue("default")["unknown_kind_seconds"] == 600
    store.configure_queue("default", unknown_kind_seconds=0)
    store.put(kind="new")
    assert decline(store) == [True]
    with pytest.raises(InvalidRequest, match="out of range"):
        store.configure_queue("default", unknown_kind_seconds=-1)


def test_several_kinds_and_queues_are_kept_apart(store: Session, clock: Clock) -> None:
    store.configure_queue("other", unknown_kind_seconds=0)
    one, two = store.put(kind="new")[0], store.put(kind="newer")[0]
    (three,) = store.put(kind="new", queue="other")
    beat(store, kinds=["newer"])
    held = store.dequeue("one", ["default", "other"], 9).requests
    answers, dead = store.decline(held, ["x", "y", "z"])
    assert (answers, dead) == ([Outcome.OK] * 3, [False, False, True])
    found = [store.row(request) for request in (one, two, three)]
    assert [row["last_error"][:2] for row in found] == ["x", "y", "fo"]
    assert [row["due_time"] - clock.now for row in found[:2]] == [
        timedelta(seconds=1),
        timedelta(seconds=30),
    ]
    assert store.depth() == store.counted()


def test_a_late_worker_declines_nothing(store: Session, clock: Clock) -> None:
    (request,) = store.put(kind="new")
    late = store.claim("one")
    clock.advance(seconds=31)
    held = store.claim("two")
    before = store.row(request)
    assert store.decline(late, ["x"]) == ([Outcome.LEASE_LOST], [False])
    assert store.row(request) == before
    decline(store, held)
    assert store.decline(held, ["x"]) == ([Outcome.REPEAT], [False])
    with pytest.raises(RoutineError, match="arrays must have the same length"):
        store.decline(held, [])


def test_a_request_that_is_to_be_cancelled_is_cancelled(store: Session) -> None:
    store.configure_queue("default", unknown_kind_seconds=0)
    (request,) = store.put(kind="new")
    held = store.claim("one")
    store.cancel([request])
    assert store.decline(held, ["x"]) == ([Outcome.OK], [False])
    assert store.row(request)["status"] == "Cancelled"
    assert store.depth() == store.counted()


@pytest.mark.parametrize("seconds", [0, 600])
def test_its_group_waits_for_it_unless_it_is_a_dead_letter(
    store: Session, clock: Clock, seconds: int
) -> None:
    store.configure_queue("default", unknown_kind_seconds=seconds)
    first, second = (store.put(kind=kind, group_key="g")[0] for kind in ("new", "old"))
    held = store.claim("one", 2)
    assert [one.request_id for one in held] == [first]
    decline(store, held)
    assert [one.request_id for one in store.claim("one", 2)] == ([] if seconds else [second])


@pytest.mark.parametrize("how", ["complete", "remove by hand"])
def test_a_request_that_waited_for_its_group_is_not_taken_for_a_declined_one(
    store: Session, clock: Clock, how: str
) -> None:
    beat(store, "two", kinds=["new"])
    requests = [NewRequest(kind="new", group_key="g", delay=delay) for delay in (None, LONG)]
    first, second = (one.request_id for one in store.enqueue_many("default", requests))
    held = store.claim("two", 2)
    assert [one.request_id for one in held] == [first]
    if how == "complete":
        store.complete(held)
    else:
        store.remove("queue", request_id=first)
        store.recount()
    assert store.claim("two", 2) == []
    clock.advance(LONG)
    assert [one.request_id for one in store.claim("two", 2)] == [second]


def test_sleepers_hear_when_to_look(store: Session, another: Callable[[], Session]) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    sleeper = another()
    sleeper.execute("select rowlease.announce_idle('{default}', true)")
    store.put(kind="new")
    held = store.claim("one")
    heard = store.listening()
    heard()
    decline(store, held)
    assert "default" in heard()


def test_kinds_that_live_workers_of_a_queue_have_for_different_tasks_are_listed(
    store: Session, clock: Clock
) -> None:
    beat(store, "app 1", ["both", "mine"])
    beat(store, "app 2", ["both", "mine"])
    beat(store, "site", ["yours", "both"], module="site")
    beat(store, "apart", ["both"], queue="other", module="apart")
    beat(store, "any", None)
    assert store.list_shared_kinds() == [
        SharedKind("default", "both", "app.both()", "app 1"),
        SharedKind("default", "both", "site.both()", "site"),
    ]
    clock.advance(seconds=31)
    beat(store, "app 2", ["both", "mine"])
    assert store.list_shared_kinds() == []
