"""A request keeps the attempts that did not complete it: who, when, and why."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from rowlease.errors import RoutineError
from rowlease.model import Attempt, Failure, Outcome
from tests.contract.sessions import Clock, Session

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'
NO = Failure("ValueError: no", timedelta(0), False, "ValueError", TRACE)
COLUMNS = ("attempt_number", "worker_id", "outcome", "error", "error_type", "traceback")


def kept(store: Session, request: int) -> tuple[Attempt, ...]:
    found = store.get_request(request)
    assert found
    return found.attempts


def test_a_request_that_succeeds_at_once_keeps_none(store: Session) -> None:
    (request,) = store.put()
    store.complete(store.claim())
    assert kept(store, request) == ()
    assert store.rows("attempt", "request_id") == []


def test_a_failed_attempt_is_kept_with_its_error_as_data(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    (held,) = store.claim("worker 7")
    began = clock.now
    clock.advance(seconds=5)
    store.fail([held], [NO])
    assert kept(store, request) == (
        Attempt(1, "worker 7", began, clock.now, "failed", "ValueError: no", "ValueError", TRACE),
    )
    found = store.get_request(request)
    assert found
    assert (found.last_error, found.locked_by) == ("ValueError: no", None)


def test_failures_reported_with_other_outcomes_are_kept_too(store: Session) -> None:
    done, first, second = store.put(3)
    held = store.claim(limit=3)
    plain = Failure("an odd\n'\"error\\", timedelta(0))
    store.exchange(
        "one",
        ["default"],
        0,
        completed=[(held[0], None)],
        failed=[(held[1], NO), (held[2], plain)],
    )
    assert kept(store, done) == ()
    ((_, _, _, _, outcome, error, kind, trace),) = kept(store, first)
    assert (outcome, error, kind, trace) == ("failed", "ValueError: no", "ValueError", TRACE)
    ((_, _, _, _, outcome, error, kind, trace),) = kept(store, second)
    assert (outcome, error, kind, trace) == ("failed", "an odd\n'\"error\\", None, None)


def test_a_broken_lease_is_kept_and_says_whether_a_start_was_reported(
    store: Session, clock: Clock
) -> None:
    running, prefetched = store.put(2)
    store.dequeue("one", ["default"], 2, slots=1)
    began = clock.now
    clock.advance(seconds=31)
    store.maintain()
    ((number, worker, start, ended, outcome, error, kind, trace),) = kept(store, running)
    assert (number, worker, start, ended) == (1, "one", began, clock.now)
    assert (outcome, kind, trace) == ("lease_lost", None, None)
    assert error
    assert error.startswith(
        "the lease ran out; its worker was killed, stopped or cut off\nworker one"
    )
    ((number, worker, start, _, outcome, error, _, _),) = kept(store, prefetched)
    assert (number, worker, start, outcome) == (1, "one", began, "lease_lost")
    assert error
    assert "cut off; it may have run, though no start was reported\nworker one" in error
    assert store.row(prefetched)["last_error"] is None


def test_an_abandoned_attempt_is_kept_if_the_task_had_begun(store: Session, clock: Clock) -> None:
    running, prefetched = store.put(2)
    held = store.dequeue("one", ["default"], 2, slots=1).requests
    began = clock.now
    clock.advance(seconds=1)
    store.abandon(held)
    assert kept(store, running) == (
        Attempt(1, "one", began, clock.now, "abandoned", None, None, None),
    )
    assert kept(store, prefetched) == ()


def test_the_newest_ten_attempts_are_kept(store: Session) -> None:
    (request,) = store.put(max_attempts=20)
    for number in range(1, 14):
        store.fail(store.claim(), [NO._replace(error=f"failure {number}")])
    assert [attempt.error for attempt in kept(store, request)] == [
        f"failure {number}" for number in range(4, 14)
    ]
    assert [attempt.attempt_number for attempt in kept(store, request)] == list(range(4, 14))


def test_the_texts_of_an_attempt_are_bounded(store: Session) -> None:
    (request,) = store.put()
    long = Failure("e" * 5000, None, False, "t" * 500, "begin" + "x" * 9000 + "end")
    store.fail(store.claim(), [long])
    (attempt,) = kept(store, request)
    assert (attempt.error, attempt.error_type) == ("e" * 2000, "t" * 200)
    assert attempt.traceback == "x" * 5997 + "end"
    assert store.row(request)["last_error"] == "e" * 5000


def test_texts_that_no_database_accepts_are_kept_escaped(store: Session) -> None:
    (request,) = store.put()
    store.fail(store.claim(), [Failure("nul \0", None, False, "half \ud800", "nul \0")])
    (attempt,) = kept(store, request)
    assert (attempt.error, attempt.error_type, attempt.traceback) == (
        "nul \N{REPLACEMENT CHARACTER}",
        "half ?",
        "nul \N{REPLACEMENT CHARACTER}",
    )


def test_errors_without_a_type_may_be_reported_by_any_language(store: Session) -> None:
    first, second = store.put(2)
    held = store.claim(limit=2)
    store._call(
        "fail",
        p_request_ids=[one.request_id for one in held],
        p_lock_tokens=[one.lock_token for one in held],
        p_errors=["no", None],
    )
    assert [kept(store, request)[0].error for request in (first, second)] == [
        "no",
        "no reason given",
    ]


@pytest.mark.parametrize("name", ["p_error_types", "p_tracebacks"])
def test_too_few_types_or_tracebacks_are_refused(name: str, store: Session) -> None:
    store.put(2)
    held = store.claim(limit=2)
    with pytest.raises(RoutineError, match="same length"):
        store._call(
            "fail",
            p_request_ids=[one.request_id for one in held],
            p_lock_tokens=[one.lock_token for one in held],
            p_errors=["no", "no"],
            **{name: ["x"]},
        )


@pytest.mark.parametrize("end", ["complete", "cancel", "requeue"])
def test_attempts_stay_with_the_request(end: str, store: Session) -> None:
    (request,) = store.put()
    store.fail(store.claim(), [NO._replace(dead=end == "requeue")])
    before = kept(store, request)
    if end == "complete":
        store.complete(store.claim())
    elif end == "cancel":
        assert store.cancel([request]) == [Outcome.OK]
    else:
        store.requeue([request])
        assert kept(store, request) == before
        store.fail(store.claim(), [NO])
        assert [attempt.attempt_number for attempt in kept(store, request)] == [1, 1]
        return
    assert kept(store, request) == before
    assert store.row(request)["status"] in ("Complete", "Cancelled")


def test_a_cancelled_request_keeps_its_last_attempt(store: Session) -> None:
    (request,) = store.put()
    held = store.claim()
    store.cancel([request])
    store.fail(held, [NO])
    assert store.row(request)["status"] == "Cancelled"
    assert [attempt.error_type for attempt in kept(store, request)] == ["ValueError"]


def test_a_lost_lease_adds_no_attempt(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    held = store.claim()
    clock.advance(seconds=31)
    store.maintain()
    assert store.fail(held, [NO]) == [Outcome.LEASE_LOST]
    assert [attempt.outcome for attempt in kept(store, request)] == ["lease_lost"]


def test_a_table_has_a_row_for_each_attempt(store: Session) -> None:
    one, two = store.put(2)
    store.fail(store.claim("w", limit=2), [NO, NO._replace(error="other")])
    store.complete(store.claim(limit=1))
    assert store.rows("attempt", "request_id", *COLUMNS) == [
        (one, 1, "w", "failed", "ValueError: no", "ValueError", TRACE),
        (two, 1, "w", "failed", "other", "ValueError", TRACE),
    ]


# -- how long --------------------------------------------------------------------------------------


def test_attempts_are_dropped_when_the_history_of_their_request_is(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", retention_days=3)
    completed, failed, running = store.put(3)
    store.fail(store.claim(limit=3), [NO, NO._replace(dead=True), NO])
    store.complete([store.claim(limit=1)[0]])
    store.claim(limit=1)
    for day in range(1, 8):
        clock.advance(days=1)
        store.maintain()
        if day <= 3:
            assert store.get_request(completed)
            assert len(kept(store, completed)) == 1
    assert store.get_request(completed) is None
    assert [row for (row,) in store.rows("attempt", "request_id", outcome="failed")] == [
        failed,
        running,
    ]


def test_attempts_are_purged_with_their_request(store: Session) -> None:
    gone, stays = store.put(2)
    store.fail(store.claim(limit=2), [NO._replace(dead=True), NO])
    assert store.purge(dry_run=True) == 1
    assert len(kept(store, gone)) == 1
    assert store.purge() == 1
    assert store.rows("attempt", "request_id") == [(stays,)]


def test_attempts_are_dropped_in_steps(store: Session, clock: Clock) -> None:
    store.put(5)
    store.fail(store.claim(limit=5), [NO] * 5)
    for (request,) in store.rows("queue", "request_id"):
        store.remove("queue", request_id=request)
    clock.advance(days=2)
    for left in (3, 1, 0):
        store.maintain(2)
        assert len(store.rows("attempt", "request_id")) == left


@pytest.mark.parametrize(
    ("error", "line"), [("one\ntwo", "one"), ("one", "one"), ("", ""), ("\n", "")], ids=json.dumps
)
def test_the_view_of_requests_has_the_first_line_of_the_error(
    error: str, line: str, store: Session
) -> None:
    failed, waiting = store.put(2)
    store.fail(store.claim(), [NO._replace(error=error, dead=True)])
    assert store.row(failed)["error_line"] == line
    assert store.row(waiting)["error_line"] is None
    store.cancel([failed])
    assert store.row(failed)["error_line"] == line
