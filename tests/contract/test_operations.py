"""What operators do to the requests that match a filter, and the audit of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import QueueFull, RoutineError
from rowlease.model import VERBS, Failure, Outcome, Step
from tests.contract.sessions import Clock, Session

DEAD = Failure("TimeoutError: no answer", dead=True)
LIVE = ("Scheduled", "Pending", "Processing")


def one_of_each(store: Session, **fields: Any) -> dict[str, int]:
    """A request in each status."""
    made = dict(
        zip(("Complete", "Failed", "Cancelled", "Processing"), store.put(4, **fields), strict=True)
    )
    held = store.claim(limit=4)
    store.complete(held[:1])
    store.fail(held[1:2], [DEAD])
    store.cancel([made["Cancelled"]])
    store.remove("operation", verb="cancel")
    store.fail(held[2:3], [DEAD])
    (made["Pending"],) = store.put(**fields)
    (made["Scheduled"],) = store.put(delay=timedelta(hours=1), **fields)
    return made


def arguments(verb: str) -> dict[str, Any]:
    return {"priority": 3} if verb == "reprioritise" else {}


def touched(step: Step) -> list[int]:
    return sorted(one.request_id for one in step.touched)


def recounts(store: Session) -> None:
    """The counts are those of the rows."""
    assert [row for row in store.depth() if any(row[2:])] == store.counted()
    assert store.recount() == []
    store.remove("operation", verb="recount")


def status(store: Session, request: int) -> str:
    return str(store.row(request)["status"])


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_the_requests_that_an_operator_expects(verb: str, store: Session) -> None:
    made = one_of_each(store)
    store.configure_queue("other")
    store.put(queue="other")
    before = store.everything()
    tried = store.operate(verb, arguments=arguments(verb), dry_run=True, queue="default")
    assert touched(tried) == sorted(made[status] for status in VERBS[verb].takes_unnamed)
    assert (tried.operation_id, store.everything(), store.rows("operation", "verb")) == (
        None, before, [("configure_queue",)]
    )  # fmt: skip
    done = store.operate(verb, arguments=arguments(verb), queue="default")
    assert done.touched == tried.touched
    assert done.after is None
    recounts(store)
    assert [row[:2] for row in store.depth("other")] == [("other", 0)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_named_requests_only_in_a_status_that_it_can_change(
    verb: str, store: Session
) -> None:
    made = one_of_each(store)
    every = list(made.values())
    tried = store.operate(verb, arguments=arguments(verb), dry_run=True, ids=every)
    assert touched(tried) == sorted(made[status] for status in VERBS[verb].takes)
    done = store.operate(verb, arguments=arguments(verb), ids=every)
    assert done.touched == tried.touched or verb == "requeue"
    assert [one[:2] for one in done.touched] == [one[:2] for one in tried.touched]
    recounts(store)
    for refused in set(made) - set(VERBS[verb].takes):
        with pytest.raises(RoutineError, match=f"{verb} takes requests that are"):
            store.operate(verb, arguments=arguments(verb), queue="default", status=refused)


@pytest.mark.parametrize(
    ("verb", "given", "filters", "message"),
    [
        (
            "drop",
            {},
            {"queue": "default"},
            f'there is no verb "drop"; the verbs are {", ".join(sorted(VERBS))}',
        ),
        ("purge", {}, {}, "the filter selects every request, or all of a status; add a queue"),
        ("purge", {}, {"status": "failed"}, "the filter selects every request, or all of a status"),
        ("reprioritise", {}, {"queue": "default"}, "reprioritise needs a priority"),
        ("reprioritise", {"priority": -1}, {"queue": "default"}, "reprioritise needs a priority"),
        ("reschedule", {"due_time": "soon"}, {"queue": "default"}, "reschedule needs delay_ms"),
        ("reschedule", {"delay_ms": -1}, {"queue": "default"}, "reschedule needs delay_ms"),
    ],
)
def test_a_wrong_operation_is_refused_and_not_noted(
    verb: str, given: dict[str, Any], filters: Any, message: str, store: Session
) -> None:
    store.put()
    before = store.everything()
    with pytest.raises(RoutineError, match=message):
        store.operate(verb, arguments=given, **filters)
    assert (store.everything(), store.rows("operation", "verb")) == (before, [])


def test_cancel_ends_what_waits_and_asks_what_runs(store: Session) -> None:
    made = one_of_each(store)
    outcomes = {one.request_id: one.outcome for one in store.operate("cancel", kind="a").touched}
    assert outcomes == {
        made["Scheduled"]: Outcome.OK,
        made["Pending"]: Outcome.OK,
        made["Processing"]: Outcome.CANCEL_REQUESTED,
    }
    assert [status(store, made[name]) for name in LIVE] == ["Cancelled"] * 2 + ["Processing"]


def test_a_finished_request_is_requeued_as_a_copy_that_names_it(
    store: Session, clock: Clock
) -> None:
    fields: dict[str, Any] = {
        "payload": '{"n": 1}',
        "priority": 2,
        "group_key": None,
        "max_attempts": 3,
    }
    (old,) = store.put(**fields, retry_base=timedelta(seconds=7))
    store.complete(store.claim(), ["1"])
    clock.advance(minutes=5)
    step = store.operate("requeue", status="Complete", queue="default", actor="ann")
    ((request, outcome, new),) = step.touched
    assert (request, outcome) == (old, Outcome.OK)
    assert new
    assert store.rows("requeued", "request_id", "requeued_from", "operation_id") == [
        (new, old, step.operation_id)
    ]
    row, was = store.row(new), store.row(old)
    for name in ("queue_name", "kind", "priority", "payload", "max_attempts", "retry_base_ms"):
        assert row[name] == was[name]
    assert (row["status"], row["num_attempts"], row["requested_time"]) == ("Pending", 0, clock.now)
    assert was["status"] == "Complete"
    recounts(store)


def test_a_finished_request_of_a_deleted_queue_is_left(store: Session) -> None:
    store.configure_queue("gone")
    (first,), (second,) = store.put(queue="gone"), store.put()
    for queue in ("gone", "default"):
        store.complete(store.dequeue("one", [queue], 1).requests)
    store.delete_queue("gone")
    for dry_run in (True, False):
        step = store.operate("requeue", ids=[first, second], dry_run=dry_run)
        assert [one[:2] for one in step.touched] == [
            (second, Outcome.OK), (first, Outcome.NOT_FOUND),
        ]  # fmt: skip


def test_a_copy_obeys_its_queue(store: Session) -> None:
    store.configure_queue("default", keep_history=False)
    (forgotten,) = store.put()
    store.complete(store.claim())
    store.configure_queue("default", keep_history=True)
    (done,) = store.put(dedup_key="k")
    store.complete(store.claim())
    store.put(dedup_key="k")
    wanted = [(done, Outcome.DUPLICATE, None), (forgotten, Outcome.NOT_FOUND, None)]
    for dry_run in (True, False):
        step = store.operate("requeue", ids=[forgotten, done], dry_run=dry_run)
        assert step.touched == wanted
    store.complete(store.claim())
    store.configure_queue("default", capacity=1, max_priority=0)
    store.put(priority=5)
    with pytest.raises(QueueFull):
        store.operate("requeue", ids=[done])
    assert [num for (num,) in store.rows("operation", "num_requests", verb="requeue")] == [0]
    recounts(store)


def test_a_priority_is_lowered_to_the_maximum_of_each_queue(store: Session) -> None:
    store.configure_queue("mail", max_priority=2)
    (low,) = store.put(queue="mail", priority=1)
    (high,) = store.put(priority=7)
    store.operate("reprioritise", arguments={"priority": 5}, min_priority=0)
    assert [store.row(request)["priority"] for request in (low, high)] == [2, 5]
    recounts(store)


@pytest.mark.both_ways
def test_a_request_with_another_priority_is_claimed_in_its_new_place(store: Session) -> None:
    first, second, third, fourth = store.put(4, priority=5)
    floor = store.dequeue("one", ["default"], 1).floor
    store.operate("reprioritise", arguments={"priority": 7}, ids=[fourth])
    store.operate("reprioritise", arguments={"priority": 1}, ids=[second])
    found = store.dequeue("one", ["default"], 9, floor=floor).requests
    assert [held.request_id for held in found] == [fourth, third, second]
    assert [held.priority for held in found] == [7, 5, 1]
    assert first not in [held.request_id for held in found]


@pytest.mark.both_ways
def test_a_request_with_a_higher_priority_is_found_below_a_floor(
    store: Session, clock: Clock
) -> None:
    (early,) = store.put(priority=5)
    clock.advance(minutes=1)
    first, second, third = store.put(3, priority=7)
    claim = store.dequeue("one", ["default"], 1)
    assert [held.request_id for held in claim.requests] == [first]
    claim = store.dequeue("one", ["default"], 1, floor=claim.floor)
    assert [held.request_id for held in claim.requests] == [second]
    store.operate("reprioritise", arguments={"priority": 7}, ids=[early])
    found = store.dequeue("one", ["default"], 9, floor=claim.floor).requests
    assert [held.request_id for held in found] == [early, third]


def test_a_due_time_in_the_past_is_now(store: Session, clock: Clock) -> None:
    (request,) = store.put(delay=timedelta(hours=1))
    past = f"{clock.now - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    store.operate("reschedule", arguments={"due_time": past}, ids=[request])
    assert store.row(request)["due_time"] == clock.now


def test_a_request_is_rescheduled_for_later_and_for_now(store: Session, clock: Clock) -> None:
    waiting, due = store.put(2)
    (later,) = store.put(delay=timedelta(hours=1))
    store.operate("reschedule", arguments={"delay_ms": 90_000}, ids=[waiting])
    row = store.row(waiting)
    assert (row["status"], row["due_time"]) == ("Scheduled", clock.now + timedelta(seconds=90))
    recounts(store)
    was = store.row(due)["due_time"]
    clock.advance(seconds=10)
    store.operate("reschedule", queue="default")
    assert [status(store, request) for request in (waiting, due, later)] == ["Pending"] * 3
    assert store.row(due)["due_time"] == was
    assert store.row(later)["due_time"] == clock.now
    recounts(store)
    assert [held.request_id for held in store.claim(limit=9)] == [due, waiting, later]


def test_a_due_time_is_an_instant(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    due = f"{clock.now + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    store.operate("reschedule", arguments={"due_time": due}, ids=[request])
    assert store.row(request)["status"] == "Scheduled"
    assert f"{store.row(request)['due_time']:%Y-%m-%dT%H:%M:%SZ}" == due
    assert store.claim() == []
    clock.advance(hours=2, seconds=1)
    assert [held.request_id for held in store.claim()] == [request]


def test_a_broken_lease_fits_nothing_and_is_no_crash(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    held = store.claim("host1:1:ab")
    assert touched(store.operate("break", worker="host1")) == [request]
    row = store.row(request)
    assert (row["status"], row["num_attempts"], row["num_crashes"]) == ("Pending", 1, 0)
    assert row["lock_token"] > held[0].lock_token
    assert row["last_error"] == "an operator ended the lease\nworker host1:1:ab"
    assert store.complete(held) == [Outcome.LEASE_LOST]
    assert store.renew(held)[0].outcome == Outcome.LEASE_LOST
    (attempt,) = store.rows("attempt", "request_id", "lock_token", "outcome", "attempt_number")
    assert attempt == (request, held[0].lock_token, "lease_lost", 1)
    recounts(store)
    (again,) = store.claim()
    assert (again.request_id, again.num_attempts) == (request, 2)
    assert again.lock_token > row["lock_token"]


def test_a_prefetched_request_whose_lease_is_broken_loses_no_attempt(store: Session) -> None:
    (request,) = store.put()
    store.claim(slots=0)
    store.operate("break", ids=[request])
    row = store.row(request)
    assert (row["num_attempts"], row["last_error"]) == (0, None)
    assert store.rows("attempt", "request_id") == []


def test_a_broken_last_attempt_is_a_dead_letter_and_frees_its_group(store: Session) -> None:
    store.configure_queue("default", max_attempts=1)
    first, second = store.put(2, group_key="g")
    store.claim()
    store.operate("break", ids=[first])
    assert store.row(first)["status"] == "Failed"
    assert store.row(first)["last_error"].startswith("no attempts left: an operator ended")
    recounts(store)
    assert [held.request_id for held in store.claim(limit=9)] == [second]


def test_a_cancelled_request_whose_lease_is_broken_is_cancelled(store: Session) -> None:
    (request,) = store.put()
    store.claim()
    store.cancel([request])
    store.operate("break", ids=[request])
    assert store.row(request)["status"] == "Cancelled"
    recounts(store)


def test_purge_forgets_requests_with_their_attempts(store: Session) -> None:
    made = one_of_each(store)
    assert (made["Failed"],) in store.rows("attempt", "request_id")
    step = store.operate("purge", ids=list(made.values()))
    assert touched(step) == sorted(set(made.values()) - {made["Processing"]})
    assert store.rows("requests", "request_id") == [(made["Processing"],)]
    assert store.rows("attempt", "request_id") == []
    recounts(store)


@pytest.mark.parametrize("verb", ["cancel", "purge"])
def test_a_verb_that_ends_the_head_of_a_group_lets_the_next_go(verb: str, store: Session) -> None:
    first, second = store.put(2, group_key="g")
    store.operate(verb, ids=[first], status="Pending")
    assert [held.request_id for held in store.claim(limit=9)] == [second]


# -- steps and audit -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_an_operation_goes_on_until_nothing_is_left(verb: str, store: Session) -> None:
    for _ in range(3):
        one_of_each(store)
    rows = store.rows("requests", "request_id", "status")
    wanted = [request for request, status in rows if status in VERBS[verb].takes_unnamed]
    step = store.operate(verb, arguments=arguments(verb), queue="default", limit=2, actor="ann")
    found = touched(step)
    while step.after is not None:
        assert len(step.touched) <= 2
        assert step.num_requests == len(found)
        ((open_, count),) = store.rows("operations", "status", "num_requests")
        assert (open_, count) == ("Open", len(found))
        step = store.operate(verb, operation_id=step.operation_id, limit=2)
        found += touched(step)
        recounts(store)
    assert sorted(found) == wanted
    assert step.num_requests == len(wanted)
    columns = ("verb", "actor", "num_requests", "status")
    assert store.rows("operations", *columns) == [(verb, "ann", len(wanted), "Finished")]
    with pytest.raises(RoutineError, match=rf"no unfinished operation \d+ with the verb {verb}"):
        store.operate(verb, operation_id=step.operation_id)
    with pytest.raises(RoutineError, match=r"no unfinished operation \d+ with the verb cancel"):
        store.operate("cancel", operation_id=2**40)


def test_a_dry_run_counts_in_steps(store: Session) -> None:
    made = store.put(5)
    found: list[int] = []
    after = None
    for _ in range(9):
        step = store.operate("cancel", queue="default", dry_run=True, after=after, limit=2)
        found += touched(step)
        after = step.after
        if after is None:
            break
    assert sorted(found) == made


def test_ages_count_from_the_first_step(store: Session, clock: Clock) -> None:
    made = store.put(3)
    clock.advance(minutes=10)
    store.put()
    step = store.operate(
        "cancel", min_age=timedelta(minutes=5), max_age=timedelta(minutes=15), limit=1
    )
    clock.advance(minutes=10)
    found = touched(step)
    while step.after is not None:
        step = store.operate("cancel", operation_id=step.operation_id, limit=1)
        found += touched(step)
    assert sorted(found) == made


def test_an_operation_says_who_did_it_to_what(store: Session, clock: Clock) -> None:
    store.put()
    store.operate("reprioritise", arguments={"priority": 3}, queue="default", actor="ann")
    store.pause("default")
    store.resume("default")
    store.configure_queue("default", capacity=7)
    rows = store.rows("operations", "operation_id", "verb", "filter", "arguments", "actor")
    told = [(verb, shown(given), shown(also), actor) for _, verb, given, also, actor in rows]
    queue = {"queue": "default"}
    assert told == [
        ("reprioritise", {**queue, "status": list(LIVE)}, {"priority": 3}, "ann"),
        ("pause", queue, {}, None),
        ("resume", queue, {}, None),
        ("configure_queue", queue, {"capacity": 7}, None),
    ]
    for login, application, started, last in store.rows(
        "operations", "login", "application", "started_time", "last_time"
    ):
        assert login
        assert application == "contract test"
        assert started == last == clock.now


def shown(value: Any) -> Any:
    import json

    return json.loads(value) if isinstance(value, str) else value


def test_an_operation_is_forgotten_after_90_days(store: Session, clock: Clock) -> None:
    store.put()
    store.complete(store.claim())
    store.operate("requeue", queue="default", status="Complete")
    clock.advance(days=89)
    store.maintain()
    assert len(store.rows("operation", "verb")) == len(store.rows("requeued", "request_id")) == 1
    clock.advance(days=2)
    store.maintain()
    assert store.rows("operation", "verb") == store.rows("requeued", "request_id") == []


def test_who_has_cancelled_a_request_is_dropped_with_the_operation(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    store.cancel([request])
    assert store.rows("cancellation", "request_id") == [(request,)]
    clock.advance(days=91)
    store.maintain()
    assert store.rows("operation", "verb") == store.rows("cancellation", "request_id") == []


def test_a_request_that_no_longer_matches_is_left_alone(
    store: Session, another: Callable[[], Session]
) -> None:
    (request,) = store.put()
    worker = another()
    worker.begin()
    worker.claim()
    operated = store.in_background(lambda: store.operate("reschedule", queue="default",
                                                         arguments={"delay_ms": 1000}))  # fmt: skip
    store.settles(operated)
    worker.commit()
    assert operated.result().touched == []
    assert store.row(request)["status"] == "Processing"
    recounts(store)


@pytest.mark.parametrize("verb", ["cancel", "reprioritise", "reschedule", "purge"])
def test_requests_in_the_lane_are_reached(verb: str, store: Session) -> None:
    run = store.begun("load")
    store.lay("load", run, [{"kind": "b"}] * 3)
    store.promote("load", run, 3)
    ids = [request for (request,) in store.rows("lane", "request_id")]
    given = {"delay_ms": 1000} if verb == "reschedule" else arguments(verb)
    step = store.operate(verb, arguments=given, load_id="load", status="Pending")
    assert touched(step) == ids
    assert store.rows("lane", "request_id") == []
    recounts(store)


@pytest.mark.parametrize("verb", ["cancel", "purge"])
def test_a_verb_that_frees_places_wakes_the_producers_that_wait(verb: str, store: Session) -> None:
    if not store.can_notify:
        pytest.skip("this engine has no notifications")
    store.configure_queue("default", capacity=1)
    store.put()
    heard = store.listening(room=True)
    (full,) = store.enqueue_many("default", [new()], wait=timedelta(seconds=30), receipt_key="r")
    assert full.outcome == Outcome.FULL
    heard()
    store.operate(verb, queue="default", status="Pending")
    assert heard() == ["default"]


def new() -> Any:
    from rowlease.model import NewRequest

    return NewRequest(kind="a")


def test_a_dead_letter_that_is_cancelled_meanwhile_is_not_requeued(
    store: Session, another: Callable[[], Session]
) -> None:
    dead = one_of_each(store)["Failed"]
    requests = len(store.rows("requests", "request_id"))
    other = another()
    other.begin()
    other.cancel([dead])
    step = store.waiting(lambda: store.operate("requeue", queue="default"))
    other.commit()
    assert not [one for one in step.result().touched if one.outcome is Outcome.OK]
    assert status(store, dead) == "Cancelled"
    assert len(store.rows("requests", "request_id")) == requests
    recounts(store)
