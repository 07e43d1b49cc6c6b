"""What a dashboard reads: what comes next, leases, dead letters, loads and waits, each bounded."""

from __future__ import annotations

import json
from datetime import UTC, date, timedelta

from rowlease.model import DayTotals, Failure, KindTotals, NextRequest, Waits
from tests.contract.sessions import Clock, Session


def test_what_is_claimed_next_is_listed(store: Session, clock: Clock) -> None:
    (late,) = store.put()
    (urgent,) = store.put(priority=5)
    clock.advance(seconds=3)
    assert store.list_ready("default") == [
        NextRequest(1, urgent, "a", 5, clock.now - timedelta(seconds=3), 3),
        NextRequest(2, late, "a", 0, clock.now - timedelta(seconds=3), 3),
    ]
    assert [one.place for one in store.list_ready("default", limit=1)] == [1]
    assert store.list_ready("no such queue") == []


def test_leases_are_listed_those_that_end_first(store: Session, clock: Clock) -> None:
    store.put(2)
    first = store.claim("one")[0]
    clock.advance(seconds=20)
    second = store.claim("two")[0]
    found = store.list_leases()
    assert [(one.request_id, one.locked_by, one.left_seconds) for one in found] == [
        (first.request_id, "one", 10),
        (second.request_id, "two", 30),
    ]
    assert (found[0].num_attempts, found[0].cancel_requested) == (1, False)
    store.cancel([second.request_id])
    assert [one.cancel_requested for one in store.list_leases(limit=9)] == [False, True]
    assert len(store.list_leases(limit=1)) == 1


def test_groups_of_dead_letters_are_listed_the_largest_first(store: Session, clock: Clock) -> None:
    store.put(3)
    one, two, three = store.claim(limit=3)
    store.fail([one], [Failure("disk full\n  at line 1", dead=True)])
    store.fail([two], [Failure("disk full\n  at line 2", dead=True)])
    clock.advance(seconds=1)
    store.fail([three], [Failure("no such file", dead=True)])
    found = store.list_dead_letters()
    assert [(group.error_pattern, group.num_requests) for group in found] == [
        ("disk full", 2),
        ("no such file", 1),
    ]
    assert found[0].last_request_id == two.request_id
    assert store.list_dead_letters(limit=1) == found[:1]


ERRORS = {
    "Connection to #.#.#.# refused": [
        "Connection to 10.0.0.17 refused",
        "Connection to 9.9.9.1018 refused\nline 2",
        "Connection to #.#.#.# refused",
    ],
    "connection to #.#.#.# refused": ["connection to 10.0.0.17 refused"],
    "#": ["1", "10", "0101", "2026"],
    "#x#": ["1x1", "10x01"],
    "##": ["7#"],
    "": ["\n2"],
    "z#": ["z" + "7" * 249 + " is not read"],
    "#" + "y" * 199: ["9" * 30 + "y" * 199, "10" + "y" * 300],
}


def test_dead_letters_whose_errors_differ_in_digits_are_a_group_and_are_found_by_its_pattern(
    store: Session,
) -> None:
    errors = [error for group in ERRORS.values() for error in group]
    store.put(len(errors))
    held = store.claim(limit=len(errors))
    store.fail(held, [Failure(error, dead=True) for error in errors])
    found = {group.error_pattern: group.num_requests for group in store.list_dead_letters()}
    assert found == {pattern: len(group) for pattern, group in ERRORS.items()}
    for pattern, group in ERRORS.items():
        matching = store.find_requests(error_pattern=pattern, status="Failed")
        assert sorted(one.last_error or "" for one in matching.requests) == sorted(group)


def test_of_many_dead_letters_as_many_of_each_queue_are_grouped(store: Session) -> None:
    for queue, count in {"default": 4000, "one": 2, "two": 2, "none": 0}.items():
        store.configure_queue(queue)
        store.fill(
            count,
            queue_name=f"'{queue}'",
            status="'Failed'",
            completion_time="rowlease.now()",
            last_error="'no'",
        )
    found = {group.queue_name: group.num_requests for group in store.list_dead_letters()}
    assert found == {"default": 3333, "one": 2, "two": 2}


def test_loads_are_listed_the_newest_first(store: Session, clock: Clock) -> None:
    store.begun("old", "a program")
    clock.advance(seconds=5)
    store.begun("new")
    found = store.list_loads()
    assert [(load.load_id, load.status, load.silent_seconds) for load in found] == [
        ("new", "Staging", 0),
        ("old", "Staging", 5),
    ]
    assert found[1].run_by.startswith("a program")
    assert store.list_loads(limit=1) == found[:1]


def test_operations_are_listed_the_latest_first(store: Session, clock: Clock) -> None:
    (number,) = store.put()
    store.operate("reprioritise", arguments={"priority": 3}, actor="me", ids=[number])
    clock.advance(seconds=1)
    store.pause("default")
    last, first = store.list_operations()
    assert (last.verb, json.loads(last.filter)) == ("pause", {"queue": "default"})
    assert (first.verb, json.loads(first.arguments)) == ("reprioritise", {"priority": 3})
    assert (first.actor, first.num_requests, first.status) == ("me", 1, "Finished")
    assert last.last_time - first.last_time == timedelta(seconds=1)
    assert store.list_operations(limit=1) == [last]


def test_waits_are_measured_for_all_queues_and_each(store: Session, clock: Clock) -> None:
    assert store.measure_waits() == []
    store.configure_queue("other")
    store.put(3)
    store.put(queue="other")
    for seconds in (1, 1, 8):
        clock.advance(seconds=seconds)
        held = store.claim()
        clock.advance(milliseconds=500)
        store.complete(held)
    store.complete(store.dequeue("one", ["other"], 1).requests)
    assert store.measure_waits() == [
        Waits(None, 4, 2500, 11500, 11500, 500, 500, 500),
        Waits("default", 3, 2500, 11000, 11000, 500, 500, 500),
        Waits("other", 1, 11500, 11500, 11500, 0, 0, 0),
    ]
    assert store.measure_waits(within=timedelta(seconds=2))[0].num_requests == 2
    assert store.measure_waits(look=1)[0].num_requests == 1
    clock.advance(seconds=61)
    assert store.measure_waits() == []


DEAD = Failure("no", dead=True)


def after_midnight(store: Session, clock: Clock, days: int = 1) -> date:
    """Go on to the first minute of a later day; its date."""
    today = clock.now.astimezone(UTC).replace(hour=0, minute=1, second=0, microsecond=0)
    clock.advance(seconds=(today + timedelta(days=days) - clock.now).total_seconds())
    store.maintain()
    return clock.now.astimezone(UTC).date()


def test_each_day_has_what_was_completed_and_failed_in_it(store: Session, clock: Clock) -> None:
    first = after_midnight(store, clock)
    store.configure_queue("mail")
    store.put(3)
    store.put(queue="mail")
    store.complete(store.claim(limit=2))
    store.complete(store.dequeue("one", ["mail"], 1).requests)
    store.maintain()  # the day of a new queue begins; what it has finished already counts
    second = after_midnight(store, clock)
    store.fail(store.claim(), [DEAD])
    third = after_midnight(store, clock, 2)  # nothing ran for a day
    store.put(2)
    done, failed = store.claim(limit=2)
    store.complete([done])
    store.fail([failed], [Failure("later")])
    assert second - first == timedelta(days=1)
    assert store.list_days() == [
        DayTotals(third, 1, 1, 1),
        DayTotals(second, 0, 1, 1),
        DayTotals(first, 3, 0, 0),
    ]
    assert store.list_days("mail")[1:] == [
        DayTotals(second, 0, 0, 0),
        DayTotals(first, 1, 0, 0),
    ]
    assert store.list_days(days=1) == [DayTotals(third, 1, 1, 1)]
    store.maintain(limit=10_000)  # counts that are folded remain the same
    assert [one.num_finished for one in store.list_days()] == [1, 0, 3]


def test_a_day_is_kept_for_90_days_or_as_long_as_the_history(store: Session, clock: Clock) -> None:
    first = after_midnight(store, clock)
    second = after_midnight(store, clock)
    after_midnight(store, clock, 89)
    assert [one.day for one in store.list_days(days=1000)][1:] == [second, first]
    after_midnight(store, clock)
    assert store.list_days(days=1000)[-1].day == second
    store.configure_queue("default", retention_days=100)
    after_midnight(store, clock, 9)
    assert store.list_days(days=1000)[-1].day == second


def test_a_deleted_queue_has_no_days(store: Session, clock: Clock) -> None:
    store.configure_queue("mail")
    store.maintain()
    assert len(store.list_days("mail")) == 1
    store.delete_queue("mail")
    store.maintain()
    assert store.list_days("mail") == []


def test_kinds_have_what_became_of_the_newest_requests(store: Session, clock: Clock) -> None:
    assert store.list_kinds() == []
    store.put(kind="old")
    store.fail(store.claim(), [DEAD])
    store.put(3, kind="mail")
    store.put(2, kind="sms")
    clock.advance(seconds=2)
    one, two, three, four, five = store.claim(limit=5)
    store.fail([four], [Failure("later", timedelta(0))])
    store.fail([five], [DEAD])
    clock.advance(seconds=1)
    store.complete([one])
    clock.advance(seconds=2)
    store.complete([two])
    store.complete(store.claim())
    store.cancel([three.request_id])
    store.fail([three], [Failure("stopped")])
    assert store.list_kinds() == [
        KindTotals("mail", 2, 1, 0, 1, 2000, 1000, 3000),
        KindTotals("sms", 1, 0, 1, 2, 3000, 0, 0),
        KindTotals("old", 0, 0, 1, 1, None, None, None),
    ]
    assert [one.kind for one in store.list_kinds(limit=1)] == ["mail"]
    assert store.list_kinds(look=1) == [KindTotals("sms", 1, 0, 1, 2, 3000, 0, 0)]
