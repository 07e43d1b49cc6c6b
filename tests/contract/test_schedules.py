"""Schedules: each firing is enqueued once, by any worker, even if workers die."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import ConfigError, InvalidRequest, QueueFull, RoutineError
from rowlease.events import Events, ScheduleFired, ScheduleNotFired
from rowlease.model import DueSchedule, Outcome
from rowlease.tasks.cron import Cron
from rowlease.tasks.task import Registry, Task, task
from rowlease.worker.housekeeping import SCHEDULE_CHECK_SECONDS, Schedules
from tests.contract.sessions import INFINITY, Clock, Session

HOURLY = "0 * * * *"
#: Within the clock's first hour: the tests begin at 12:00.
HOUR = timedelta(hours=1)


@task(cron=HOURLY, queue="default", priority=3, catch_up=5)
def tidy() -> None: ...


@task("report", cron="*/30 * * * *", time_zone="Asia/Kathmandu")
def report(scheduled_time: str) -> None: ...


#: The code of a worker that knows the schedules' tasks, and makes no schedules.
KNOWN = Registry([Task(tidy.function, "tidy")])


def fire(store: Session, worker: str = "one") -> int:
    """Do what a worker does; how many firings that were."""
    fired: list[Any] = []
    events = Events()
    events.subscribe(fired.append, ScheduleFired)
    Schedules(store, worker, KNOWN, events).step()
    return len(fired)


def plan(store: Session) -> datetime:
    """Have a schedule and its next time."""
    store.put_schedule("s", HOURLY, "tidy")
    fire(store)
    ((next_time,),) = store.rows("schedule", "next_time")
    assert isinstance(next_time, datetime)
    return next_time


def lease(store: Session, worker: str = "one") -> DueSchedule:
    (due,) = store.claim_schedules(worker).due
    return due


def unread(store: Session, name: str, cron: str, zone: str = "UTC") -> None:
    """Create a schedule as a DBA does, with an expression that was not checked."""
    store._call(
        "put_schedule",
        p_schedule_name=name,
        p_cron=cron,
        p_kind="tidy",
        p_queue_name="default",
        p_time_zone=zone,
        p_payload="{}",
        p_priority=0,
        p_catch_up=1,
    )


def keys(store: Session) -> list[Any]:
    return [key for _, key in store.rows("requests", "request_id", "dedup_key")]


# -- making and changing -----------------------------------------------------------------------


def test_a_schedule_is_a_row_and_first_fires_after_its_creation(
    store: Session, clock: Clock
) -> None:
    made = clock.now
    assert store.put_schedule("s", " 0  * * * *", "tidy", catch_up=2) == ("ok", made)
    (row,) = store.list_schedules()
    assert row[:9] == ("s", HOURLY, "UTC", "default", "tidy", "{}", 0, 2, False)
    assert (row.next_time, row.last_time, row.last_request_id) == (None, None, None)
    clock.advance(minutes=1)
    due = lease(store)
    assert (due.next_time, due.changed_time, due.claimed_time) == (None, made, clock.now)


def test_one_that_is_the_same_stays_as_it_is(store: Session, clock: Clock) -> None:
    plan(store)
    before = store.rows("schedule", "*")
    clock.advance(minutes=10)
    assert store.put_schedule("s", HOURLY, "tidy")[0] == "repeat"
    assert store.rows("schedule", "*") == before


@pytest.mark.parametrize("change", [{"payload": '{"a": 1}'}, {"priority": 2}, {"catch_up": 9}])
def test_what_does_not_change_the_times_leaves_the_next_one(
    store: Session, change: dict[str, Any]
) -> None:
    planned = plan(store)
    assert store.put_schedule("s", HOURLY, "tidy", **change)[0] == "ok"
    assert store.rows("schedule", "next_time") == [(planned,)]


@pytest.mark.parametrize("change", [("*/5 * * * *", "UTC"), (HOURLY, "Asia/Kathmandu")])
def test_a_new_expression_counts_from_now(
    store: Session, clock: Clock, change: tuple[str, str]
) -> None:
    plan(store)
    clock.advance(hours=5)
    cron, zone = change
    assert store.put_schedule("s", cron, "tidy", time_zone=zone) == ("ok", clock.now)
    assert fire(store) == 0
    assert store.rows("schedule", "next_time") == [(Cron(cron, zone).following(clock.now),)]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"queue": "nowhere"}, InvalidRequest, 'queue "nowhere" does not exist'),
        ({"kind": ""}, InvalidRequest, "kind must be a task name"),
        ({"priority": -1}, InvalidRequest, "priority is -1"),
        ({"payload": "{"}, InvalidRequest, "not JSON|must be a JSON object"),
        ({"name": ""}, InvalidRequest, "a schedule needs a name"),
        ({"name": "s" * 201}, InvalidRequest, "a schedule needs a name"),
        ({"catch_up": 0}, InvalidRequest, "a catch-up of 1 to 1000"),
        ({"catch_up": 1001}, InvalidRequest, "a catch-up of 1 to 1000"),
        ({"cron": "61 * * * *"}, ConfigError, "bad minute"),
        ({"time_zone": "Mars"}, ConfigError, "this host does not know"),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: Session, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        store.put_schedule(**{"name": "s", "cron": HOURLY, "kind": "tidy", **wrong})
    assert store.list_schedules() == []


def test_the_routine_counts_the_fields_of_an_expression_itself(store: Session) -> None:
    for cron in ("@daily", "* * * * * * *", ""):
        with pytest.raises(InvalidRequest, match="five fields"):
            unread(store, "s", cron)


# -- firing ------------------------------------------------------------------------------------


def test_a_firing_is_a_request_with_its_scheduled_time(store: Session, clock: Clock) -> None:
    store.put_schedule("nightly", HOURLY, "tidy", payload='{"at": "{scheduled_time}", "n": 1}',
                       priority=4)  # fmt: skip
    assert fire(store) == 0
    clock.advance(minutes=59, seconds=59.9)
    assert fire(store) == 0
    clock.advance(seconds=0.4)
    assert fire(store) == 1
    (row,) = store.find_requests().requests
    assert (row.kind, row.status, row.priority) == ("tidy", "Pending", 4)
    assert row.payload == '{"at": "2026-01-01T13:00:00Z", "n": 1}'
    assert row.dedup_key == "nightly@2026-01-01T13:00:00Z"
    (schedule,) = store.list_schedules()
    assert schedule.last_time == datetime(2026, 1, 1, 13, tzinfo=UTC)
    assert schedule.next_time == schedule.last_time + HOUR
    assert schedule.last_request_id == row.request_id
    assert store.depth() == store.counted()


def test_a_firing_notifies_idle_workers(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    if not store.can_notify:
        pytest.skip("this engine sends no notifications")
    plan(store)
    heard = store.listening()
    clock.advance(hours=1)
    assert fire(store) == 1
    assert heard() == []  # no worker is idle
    another().execute("select rowlease.announce_idle('{default}', true)")
    clock.advance(hours=1)
    assert fire(store) == 1
    assert heard() == ["default"]


def test_the_same_token_fires_once(store: Session, clock: Clock) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    due = lease(store)
    (first,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    before = store.everything()
    (again,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    assert (first.outcome, again) == ("ok", (first.request_id, "repeat"))
    assert store.everything() == before


def test_who_comes_late_fires_nothing(store: Session, clock: Clock) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    late = lease(store, "one")
    clock.advance(seconds=10)
    due = lease(store, "two")
    assert due.lock_token > late.lock_token
    for _ in range(2):  # while another is at it, and when that one has fired
        (answer,) = store.fire_schedule("s", late.lock_token, [planned], planned + HOUR)
        assert answer == (None, "lease_lost")
        store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    assert len(store.rows("queue", "request_id")) == 1


def test_who_leased_a_schedule_in_a_timeline_that_was_lost_fires_nothing(
    store: Session, clock: Clock
) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    store.begin()
    lost = lease(store, "one")
    store.rollback()
    due = lease(store, "two")
    (answer,) = store.fire_schedule("s", lost.lock_token, [planned], planned + HOUR)
    assert answer == (None, "lease_lost")
    (answer,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    assert answer.outcome == "ok"


@pytest.mark.parametrize("change", ["put_schedule", "pause_schedule", "remove_schedule"])
def test_a_firing_while_the_schedule_changes_is_refused(
    store: Session, clock: Clock, change: str
) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    due = lease(store)
    store.put_schedule("s", "5 * * * *", "tidy") if change == "put_schedule" else getattr(
        store, change
    )("s")
    (answer,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    assert answer.outcome == ("not_found" if change == "remove_schedule" else "lease_lost")
    assert store.rows("queue", "request_id") == []


@pytest.mark.parametrize("wrong", ["too early", "next before last", "no next"])
def test_a_firing_that_is_not_due_is_refused(store: Session, clock: Clock, wrong: str) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    due = lease(store)
    before = store.rows("schedule", "*")
    times, following = {
        "too early": ([planned, planned + HOUR], planned + 2 * HOUR),
        "next before last": ([planned], planned),
        "no next": ([planned], None),
    }[wrong]
    with pytest.raises(RoutineError, match='a firing of "s" is not due yet'):
        store.fire_schedule("s", due.lock_token, times, following)
    assert store.rows("schedule", "*") == before
    assert store.rows("queue", "request_id") == []


def test_while_one_fires_another_finds_nothing_to_do(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    plan(store)
    clock.advance(hours=1)
    other = another()
    store.begin()
    assert len(store.claim_schedules("one").due) == 1
    claim = other.in_background(lambda: other.claim_schedules("two"))
    assert other.passes(claim)
    assert claim.result().due == []
    store.commit()
    assert other.claim_schedules("two") == ([], timedelta(seconds=10))


def test_of_two_firings_with_one_token_the_second_waits_and_gets_repeat(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    planned = plan(store)
    clock.advance(hours=1)
    other = another()
    due = lease(store)
    store.begin()
    (first,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    second = other.waiting(
        lambda: other.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    )
    store.commit()
    assert second.result(10) == [(first.request_id, "repeat")]
    assert len(store.rows("queue", "request_id")) == 1


def test_a_full_queue_delays_a_firing_and_loses_none(store: Session, clock: Clock) -> None:
    plan(store)
    store.configure_queue("default", capacity=1)
    (request,) = store.put()
    clock.advance(hours=1)
    heard: list[Any] = []
    events = Events()
    events.subscribe(heard.append)
    schedules = Schedules(store, "one", KNOWN, events)
    assert schedules.step() == 10  # when the lease is over, it is tried again
    clock.advance(seconds=10)
    schedules.step()
    (reported,) = heard
    assert isinstance(reported, ScheduleNotFired)
    assert 'queue "default" is full' in reported.error
    store.cancel([request])
    clock.advance(seconds=10)
    assert fire(store) == 1
    assert keys(store)[1:] == ["s@2026-01-01T13:00:00Z"]


def test_an_operator_gets_queue_full(store: Session) -> None:
    plan(store)
    store.configure_queue("default", capacity=1)
    store.put()
    with pytest.raises(QueueFull):
        store.fire_schedule("s")


def test_a_change_that_waited_for_the_removal_creates_the_schedule_again(
    store: Session, another: Callable[[], Session]
) -> None:
    plan(store)
    store.begin()
    assert store.put_schedule("s", HOURLY, "tidy")[0] == "repeat"  # locks the row
    other = another()
    change = other.waiting(lambda: other.put_schedule("s", "0 5 * * *", "tidy"))
    store.remove_schedule("s")
    store.commit()
    assert change.result(10)[0] == "ok"
    assert store.rows("schedule", "cron") == [("0 5 * * *",)]


# -- what was missed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catch_up", "made_up"), [(1, [17]), (3, [15, 16, 17]), (9, range(13, 18))]
)
def test_the_latest_missed_firings_are_enqueued_late(
    store: Session, clock: Clock, catch_up: int, made_up: list[int]
) -> None:
    store.put_schedule("s", HOURLY, "tidy", catch_up=catch_up)
    fire(store)
    clock.advance(hours=5, minutes=20)
    assert fire(store) == len(made_up)
    assert keys(store) == [f"s@2026-01-01T{hour}:00:00Z" for hour in made_up]
    assert fire(store) == 0
    clock.advance(minutes=40)
    assert fire(store) == 1


def test_a_firing_between_creation_and_planning_is_not_missed(store: Session, clock: Clock) -> None:
    store.put_schedule("s", HOURLY, "tidy")
    clock.advance(hours=1)
    assert fire(store) == 1


def test_a_paused_schedule_makes_nothing_up(store: Session, clock: Clock) -> None:
    plan(store)
    assert store.pause_schedule("s") == "ok"
    assert store.pause_schedule("s") == "repeat"
    clock.advance(hours=3)
    assert store.claim_schedules("one") == ([], None)
    assert store.put_schedule("s", HOURLY, "tidy")[0] == "repeat"  # nor does a worker resume it
    assert store.resume_schedule("s") == "ok"
    assert store.resume_schedule("s") == "repeat"
    assert fire(store) == 0
    clock.advance(hours=1)
    assert fire(store) == 1
    assert keys(store) == ["s@2026-01-01T16:00:00Z"]


# -- operators ---------------------------------------------------------------------------------


def test_an_operator_fires_one_now_and_the_planned_firing_stays(
    store: Session, clock: Clock
) -> None:
    planned = plan(store)
    clock.advance(minutes=7, milliseconds=250)
    (fired,) = store.fire_schedule("s")
    assert fired.outcome is Outcome.OK
    assert keys(store) == ["s@2026-01-01T12:07:00.25Z"]
    assert store.rows("schedule", "next_time", "locked_by") == [(planned, None)]


def test_an_operator_who_fires_does_not_disturb_the_worker_with_the_lease(
    store: Session, clock: Clock
) -> None:
    planned = plan(store)
    clock.advance(hours=1, minutes=1)
    due = lease(store)
    store.fire_schedule("s")
    (answer,) = store.fire_schedule("s", due.lock_token, [planned], planned + HOUR)
    assert answer.outcome is Outcome.OK
    assert len(keys(store)) == 2


def test_what_is_removed_is_gone_and_what_it_has_enqueued_is_not(
    store: Session, clock: Clock
) -> None:
    plan(store)
    clock.advance(hours=1)
    fire(store)
    assert store.remove_schedule("s") == "ok"
    assert store.list_schedules() == []
    assert len(store.find_requests().requests) == 1
    assert store.remove_schedule("s") == "not_found"
    assert store.pause_schedule("s") == store.resume_schedule("s") == "not_found"
    assert store.fire_schedule("s") == [(None, "not_found")]


# -- waiting -----------------------------------------------------------------------------------


def test_it_says_how_long_there_is_nothing_to_fire(store: Session, clock: Clock) -> None:
    assert store.claim_schedules("one") == ([], None)
    plan(store)
    clock.advance(seconds=0.5)
    assert store.claim_schedules("one").wait == HOUR - timedelta(seconds=0.5)
    clock.advance(hours=1)
    due = lease(store)
    clock.advance(seconds=4)
    assert store.claim_schedules("two") == ([], timedelta(seconds=6))
    assert due.claimed_time == clock.now - timedelta(seconds=4)


@pytest.mark.parametrize("wrong", [{"worker_id": ""}, {"lease": timedelta(0)}, {"limit": 0}])
def test_a_claim_that_makes_no_sense_is_refused(store: Session, wrong: dict[str, Any]) -> None:
    with pytest.raises(RoutineError, match="claim_schedules needs a worker id"):
        store.claim_schedules(**{"worker_id": "one", **wrong})


def test_many_that_are_due_are_fired_in_bounded_steps(store: Session, clock: Clock) -> None:
    for n in range(5):
        store.put_schedule(f"s{n}", HOURLY, "tidy")
    clock.advance(hours=1)
    assert len(store.claim_schedules("one", limit=2).due) == 2
    assert len(store.claim_schedules("one", limit=10).due) == 3


# -- schedules in code -------------------------------------------------------------------------


def test_a_worker_leases_only_the_schedules_whose_kind_it_knows(
    store: Session, clock: Clock
) -> None:
    plan(store)  # tidy
    store.put_schedule("other", "30 * * * *", "other")
    store.put_schedule("unplanned", HOURLY, "other")
    assert store.claim_schedules("one", kinds=[]) == ([], None)
    assert store.claim_schedules("one", kinds=["nobody's"]) == ([], None)
    assert store.claim_schedules("one", kinds=["tidy"]) == ([], HOUR)
    clock.advance(hours=2)
    found = store.claim_schedules("one", kinds=["other", "more"])
    assert {due.schedule_name for due in found.due} == {"other", "unplanned"}
    assert found.wait == timedelta(seconds=10), "its own leases, not the other's"
    assert [due.schedule_name for due in store.claim_schedules("two").due] == ["s"]


def test_a_worker_fires_only_the_schedules_whose_task_it_knows(
    store: Session, clock: Clock
) -> None:
    plan(store)
    store.put_schedule("other", HOURLY, "other")
    clock.advance(hours=1)
    assert fire(store) == 1
    assert [row.kind for row in store.find_requests().requests] == ["tidy"]
    knows = Registry([Task(tidy.function, "other")])
    Schedules(store, "two", knows, Events()).step()
    assert [row.kind for row in store.find_requests().requests] == ["other", "tidy"]


def test_a_worker_registers_the_schedules_of_its_tasks_and_fires_them(
    store: Session, clock: Clock
) -> None:
    heard: list[Any] = []
    events = Events()
    events.subscribe(heard.append)
    schedules = Schedules(store, "one", Registry([tidy, report]), events)
    assert schedules.step() == SCHEDULE_CHECK_SECONDS
    clock.advance(hours=1)
    # Kathmandu is 5:45 ahead: half and full hours there are 15 and 45 minutes past here.
    schedules.step()
    assert [(e.schedule, f"{e.time:%H:%M}") for e in sorted(heard, key=lambda e: e.time)] == [
        ("report", "12:45"),
        ("tidy", "13:00"),
    ]
    rows = {row.kind: (row.priority, row.payload) for row in store.find_requests().requests}
    assert rows == {
        "tidy": (3, "{}"),
        "report": (0, '{"scheduled_time":"2026-01-01T12:45:00Z"}'),
    }
    assert report.run(str(rows["report"][1])) is None


def test_a_worker_looks_again_when_the_next_is_due(store: Session, clock: Clock) -> None:
    plan(store)
    clock.advance(minutes=59, seconds=55)
    schedules = Schedules(store, "one", KNOWN, Events())
    assert schedules.step() == 5


def test_an_invalid_expression_does_not_block_other_schedules(store: Session, clock: Clock) -> None:
    plan(store)
    for name, cron, zone in (("bad", "61 * * * *", "UTC"), ("lost", HOURLY, "Europe/Atlantis")):
        unread(store, name, cron, zone)
    clock.advance(hours=1)
    heard: list[Any] = []
    events = Events()
    events.subscribe(heard.append)
    schedules = Schedules(store, "one", KNOWN, events)
    schedules.step()
    clock.advance(seconds=10)
    schedules.step()
    assert sorted((type(e).__name__, e.schedule) for e in heard) == [
        ("ScheduleFired", "s"),
        ("ScheduleNotFired", "bad"),
        ("ScheduleNotFired", "lost"),
    ]


@INFINITY
def test_a_schedule_with_an_infinite_next_time_is_not_waited_for(
    store: Session,
) -> None:
    plan(store)
    store.execute("update rowlease.schedule set next_time = 'infinity'")
    assert store.claim_schedules("one") == ([], None)
