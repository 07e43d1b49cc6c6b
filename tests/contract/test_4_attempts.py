"""Promise 4: attempts are counted at the claim, and they come to an end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from rowlease.model import Failure, LeasedRequest, NewRequest, Outcome
from tests.contract.sessions import Clock, Session

pytestmark = pytest.mark.both_ways

AT_ONCE = Failure("x", after=timedelta(0))


def counts(store: Session, request: int) -> tuple[Any, ...]:
    row = store.row(request)
    return row["status"], row["num_attempts"], row["num_crashes"], row["num_abandons"]


def crash(store: Session, clock: Clock) -> None:
    """Every worker is killed, and a worker of another queue's housekeeping notices."""
    clock.advance(seconds=31)
    store.maintain()


def delay_of_next_attempt(store: Session, clock: Clock, request: int) -> timedelta:
    due: datetime = store.row(request)["due_time"]
    return due - clock.now


# -- attempts --------------------------------------------------------------------------------------


def test_an_attempt_is_counted_when_it_is_claimed(store: Session) -> None:
    (request,) = store.put()
    assert counts(store, request) == ("Pending", 0, 0, 0)
    (held,) = store.claim()
    assert held.num_attempts == 1
    assert counts(store, request) == ("Processing", 1, 0, 0)
    store.complete([held])
    assert counts(store, request) == ("Complete", 1, 0, 0)


def test_a_request_that_fails_its_last_attempt_is_a_dead_letter(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", max_attempts=3)
    (request,) = store.put()
    for attempt in (1, 2, 3):
        assert store.row(request)["status"] == "Pending"
        (held,) = store.claim()
        assert (held.num_attempts, held.max_attempts) == (attempt, 3)
        assert store.fail([held], [Failure(f"failure {attempt}", timedelta(0))]) == [Outcome.OK]
    assert counts(store, request) == ("Failed", 3, 0, 0)
    assert store.row(request)["last_error"] == "failure 3"
    assert store.row(request)["completion_time"] == clock.now
    clock.advance(days=1)
    assert store.claim() == []
    assert [depth[2:] for depth in store.depth()] == [(0, 0, 0, 1)]


def test_a_request_may_have_its_own_number_of_attempts(store: Session) -> None:
    answers = store.enqueue_many(
        "default",
        [NewRequest(kind="a", max_attempts=1), NewRequest(kind="b", max_attempts=2)],
    )
    store.fail(store.claim(limit=2), [AT_ONCE] * 2)
    assert [store.row(answer.request_id or 0)["status"] for answer in answers] == [
        "Failed",
        "Pending",
    ]


@pytest.mark.parametrize("way", ["enqueue", "inbox", "promote", "schedule"])
def test_a_request_that_brings_no_number_of_attempts_has_the_queues(
    store: Session, clock: Clock, way: str
) -> None:
    store.configure_queue("default", max_attempts=7)
    match way:
        case "enqueue":
            store.put()
        case "inbox":
            store.insert("inbox", kind="a")
        case "promote":
            store.promote("load", store.staged("load", [{"dedup_key": "k"}]), 1)
        case "schedule":
            store.put_schedule("s", "0 * * * *", "a")
            store.fire_schedule("s")
    assert store.rows("queue", "max_attempts") == [(7,)]


def reported(store: Session, held: list[LeasedRequest], failure: Failure) -> list[Any]:
    """The outcome of `fail`, and that of `exchange` for the same report a moment later."""
    rows = store._call(
        "fail",
        p_request_ids=[one.request_id for one in held],
        p_lock_tokens=[one.lock_token for one in held],
        p_errors=[failure.error for _ in held],
        p_retries_ms=[0 for _ in held],
        p_dead=[failure.dead for _ in held],
    )
    again = store.exchange("one", ["default"], 0, failed=[(one, failure) for one in held])
    first = [(Outcome(outcome), bool(dead)) for _, outcome, dead in rows]
    return [first, list(zip(again.failed, again.dead, strict=True))]


def test_reporting_failures_returns_which_requests_are_dead_letters(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", max_attempts=2)
    store.put(2)
    repeat, ok = Outcome.REPEAT, Outcome.OK
    held = store.claim(limit=2)
    assert reported(store, held, AT_ONCE) == [[(ok, False)] * 2, [(repeat, False)] * 2]
    exhausted, other = store.claim(limit=2)
    assert reported(store, [exhausted], AT_ONCE) == [[(ok, True)], [(repeat, True)]]
    hopeless = Failure("x", dead=True)
    clock.advance(seconds=31)
    store.maintain()  # the other's lease is broken
    (lost,) = store.rows("queue", "request_id", "status", request_id=other.request_id)
    assert lost[1] == "Failed", "it has no attempts left"
    assert reported(store, [other], hopeless) == [[(Outcome.LEASE_LOST, False)]] * 2
    store.requeue([exhausted.request_id])
    assert reported(store, store.claim(), hopeless) == [[(ok, True)], [(repeat, True)]]


def test_a_failure_of_a_request_that_was_to_be_cancelled_makes_no_dead_letter(
    store: Session,
) -> None:
    (request,) = store.put(max_attempts=1)
    held = store.claim()
    store.cancel([request])
    assert reported(store, held, AT_ONCE) == [[(Outcome.OK, False)], [(Outcome.REPEAT, False)]]


def test_a_worker_may_give_a_request_up_at_its_first_attempt(store: Session) -> None:
    (request,) = store.put()
    store.fail(store.claim(), [Failure("hopeless", dead=True)])
    assert counts(store, request) == ("Failed", 1, 0, 0)


def test_the_text_of_an_error_is_kept_whatever_it_is(store: Session) -> None:
    for error, kept in [
        ("x" * 10_000, "x" * 8_000),
        ("nul \0 and half \ud800", "nul \N{REPLACEMENT CHARACTER} and half ?"),
        ("", ""),
        ("%s '; drop table rowlease.queue; --", "%s '; drop table rowlease.queue; --"),
    ]:
        (request,) = store.put()
        assert store.fail(store.claim(), [Failure(error, dead=True)]) == [Outcome.OK]
        assert store.row(request)["last_error"] == kept


# -- back-off --------------------------------------------------------------------------------------


def backoffs(store: Session, clock: Clock, request: int, number: int) -> list[timedelta]:
    """Fail again and again; how long each next attempt has to wait."""
    waits = []
    for _ in range(number):
        (held,) = store.claim()
        store.fail([held], [Failure("x")])
        assert store.row(request)["status"] == "Scheduled"
        wait = delay_of_next_attempt(store, clock, request)
        waits.append(wait)
        clock.advance(wait - timedelta(milliseconds=1))
        assert store.claim() == []
        clock.advance(milliseconds=1)
    return waits


def test_the_wait_doubles_with_every_attempt_up_to_the_cap(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_attempts=99, retry_base_ms=1000, retry_cap_ms=60_000)
    (request,) = store.put()
    for attempt, wait in enumerate(backoffs(store, clock, request, 50)):
        full = timedelta(seconds=min(60, 2**attempt))
        assert full / 2 <= wait <= full, attempt


def test_requests_that_failed_together_do_not_come_back_together(
    store: Session, clock: Clock
) -> None:
    ids = store.put(200)
    store.fail(store.claim(limit=200), [Failure("x")] * 200)
    waits = sorted(delay_of_next_attempt(store, clock, request) for request in ids)
    assert timedelta(seconds=0.5) <= waits[0] < timedelta(seconds=0.6)
    assert timedelta(seconds=0.9) < waits[-1] <= timedelta(seconds=1)
    assert len(set(waits)) > 100


def test_a_request_may_have_its_own_first_back_off(store: Session, clock: Clock) -> None:
    store.configure_queue("default", retry_base_ms=100_000)
    (request,) = store.put(retry_base=timedelta(milliseconds=100))
    first, second = backoffs(store, clock, request, 2)
    assert timedelta(milliseconds=50) <= first <= timedelta(milliseconds=100)
    assert timedelta(milliseconds=100) <= second <= timedelta(milliseconds=200)


def test_a_failure_may_say_how_long_to_wait(store: Session, clock: Clock) -> None:
    ids = store.put(4)
    waits = [timedelta(0), timedelta(milliseconds=1), timedelta(days=40), timedelta(days=-1)]
    store.fail(store.claim(limit=4), [Failure("x", wait) for wait in waits])
    assert [store.row(request)["status"] for request in ids] == [
        "Pending",
        "Scheduled",
        "Scheduled",
        "Pending",
    ]
    waits[-1] = timedelta(0)
    assert [delay_of_next_attempt(store, clock, request) for request in ids] == waits


def test_a_first_wait_of_nothing_retries_at_once(store: Session) -> None:
    (request,) = store.put(retry_base=timedelta(0))
    store.fail(store.claim(), [Failure("x")])
    assert store.row(request)["status"] == "Pending"
    assert [held.num_attempts for held in store.claim()] == [2]


def test_a_wait_beyond_the_calendar_does_not_keep_a_failure_from_being_recorded(
    store: Session,
) -> None:
    ids = store.put(2)
    longest = Failure("x", after=timedelta.max)
    assert store.fail(store.claim(limit=2), [longest, AT_ONCE]) == [Outcome.OK] * 2
    assert [store.row(request)["status"] for request in ids] == ["Scheduled", "Pending"]


def test_a_retry_takes_its_turn_by_its_new_due_time(store: Session, clock: Clock) -> None:
    first, second = store.put(2)
    store.fail(store.claim(), [Failure("x", timedelta(seconds=1))])
    clock.advance(seconds=1)
    assert [held.request_id for held in store.claim(limit=2)] == [second, first]


# -- crashes ---------------------------------------------------------------------------------------


def test_a_started_lease_that_runs_out_is_a_crash(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    store.claim("worker 7")
    crash(store, clock)
    assert counts(store, request) == ("Pending", 1, 1, 0)
    row = store.row(request)
    first, second = row["last_error"].split("\n")
    assert first == "the lease ran out; its worker was killed, stopped or cut off"
    assert second.startswith("worker worker 7, lease until 2026-01-01 12:00:30")
    assert second.endswith(", crash 1")
    assert (row["locked_by"], row["started_time"]) == (None, None)
    (held,) = store.claim()
    assert (held.num_attempts, held.num_crashes) == (2, 1)


def test_another_workers_dequeue_breaks_a_lease_and_takes_the_request(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    (late,) = store.claim("one")
    clock.advance(seconds=30)
    (held,) = store.claim("two")
    assert (held.request_id, held.num_crashes) == (request, 1)
    assert held.lock_token > late.lock_token


@pytest.mark.parametrize(("max_crashes", "max_attempts"), [(3, 99), (1, 99), (2, 2)])
def test_a_request_that_crashes_too_often_is_a_dead_letter_with_any_number_of_attempts(
    store: Session, clock: Clock, max_crashes: int, max_attempts: int
) -> None:
    store.configure_queue("default", max_crashes=max_crashes, max_attempts=max_attempts)
    (request,) = store.put()
    for number in range(1, max_crashes + 1):
        assert store.row(request)["status"] == "Pending"
        store.claim("one")
        crash(store, clock)
        assert counts(store, request)[1:] == (number, number, 0)
    assert store.row(request)["status"] == "Failed"
    assert store.row(request)["last_error"].startswith("too many crashes: the lease ran out")
    assert store.claim() == []
    assert [depth[2:] for depth in store.depth()] == [(0, 0, 0, 1)]


def test_a_crash_at_the_last_attempt_is_a_dead_letter(store: Session, clock: Clock) -> None:
    (request,) = store.put(max_attempts=1)
    store.claim("one")
    crash(store, clock)
    assert counts(store, request) == ("Failed", 1, 1, 0)
    assert store.row(request)["last_error"].startswith("no attempts left: the lease ran out")


def test_failing_does_not_count_as_a_crash_nor_wipe_crashes_out(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put(max_attempts=99)
    for _ in range(2):
        store.claim()
        crash(store, clock)
        store.fail(store.claim(), [AT_ONCE])
    assert counts(store, request) == ("Pending", 4, 2, 0)
    store.claim()
    crash(store, clock)
    assert counts(store, request) == ("Failed", 5, 3, 0)


def test_a_lease_lost_before_its_request_started_counts_nothing(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", max_crashes=1, max_attempts=1)
    started, fetched = store.put(2)
    store.claim("one", 2, slots=1)
    crash(store, clock)
    assert counts(store, started) == ("Failed", 1, 1, 0)
    assert counts(store, fetched) == ("Pending", 0, 0, 0)
    assert store.row(fetched)["last_error"] is None
    (held,) = store.claim()
    assert (held.request_id, held.num_attempts) == (fetched, 1)


def test_a_request_fetched_ahead_counts_once_its_worker_says_that_it_has_started(
    store: Session, clock: Clock
) -> None:
    first, second = store.put(2)
    held = store.claim(limit=1, slots=0) + store.claim(limit=1, slots=0)
    clock.advance(seconds=1)
    store.renew(held, started=[False, True])
    assert store.row(first)["started_time"] is None
    assert store.row(second)["started_time"] == clock.now
    crash(store, clock)
    assert counts(store, first) == ("Pending", 0, 0, 0)
    assert counts(store, second) == ("Pending", 1, 1, 0)


def test_a_renewal_that_denies_the_start_of_a_request_takes_it_back(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    held = store.claim()
    began = clock.now
    clock.advance(seconds=1)
    store.renew(held, started=[True])
    assert store.row(request)["started_time"] == began
    store.renew(held, started=[False])
    assert store.row(request)["started_time"] is None
    crash(store, clock)
    assert counts(store, request) == ("Pending", 0, 0, 0)


def test_a_renewal_that_does_not_say_means_that_the_request_runs(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    store.renew(store.claim(slots=0))
    crash(store, clock)
    assert counts(store, request) == ("Pending", 1, 1, 0)


# -- abandons --------------------------------------------------------------------------------------


def abandon(store: Session, times: int) -> None:
    for _ in range(times):
        assert store.abandon(store.claim()) == [Outcome.OK]


def test_an_abandon_counts_no_attempt_and_keeps_the_place_in_the_order(
    store: Session, clock: Clock
) -> None:
    first, second = store.put(2)
    due = store.row(first)["due_time"]
    clock.advance(seconds=1)
    abandon(store, 1)
    assert counts(store, first) == ("Pending", 0, 0, 1)
    assert store.row(first)["due_time"] == due
    assert [held.request_id for held in store.claim(limit=2)] == [first, second]


def test_the_tenth_abandon_in_a_row_counts_an_attempt(store: Session) -> None:
    (request,) = store.put()
    abandon(store, 9)
    assert counts(store, request) == ("Pending", 0, 0, 9)
    abandon(store, 1)
    assert counts(store, request) == ("Pending", 1, 0, 0)
    abandon(store, 10)
    assert counts(store, request) == ("Pending", 2, 0, 0)


def test_a_loop_of_rejections_ends_as_a_dead_letter(store: Session) -> None:
    (request,) = store.put(max_attempts=2)
    abandon(store, 20)
    assert counts(store, request) == ("Failed", 2, 0, 0)
    assert "abandoned ten times in a row" in store.row(request)["last_error"]
    assert store.claim() == []


def test_a_failure_or_a_crash_begins_a_new_row_of_abandons(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    abandon(store, 9)
    store.fail(store.claim(), [AT_ONCE])
    abandon(store, 9)
    store.claim()
    crash(store, clock)
    abandon(store, 9)
    assert counts(store, request) == ("Pending", 2, 1, 9)
    abandon(store, 1)
    assert counts(store, request) == ("Pending", 3, 1, 0)


def test_a_lease_lost_before_the_start_does_not_interrupt_a_row_of_abandons(
    store: Session, clock: Clock
) -> None:
    (request,) = store.put()
    abandon(store, 9)
    store.claim(slots=0)
    crash(store, clock)
    assert counts(store, request) == ("Pending", 0, 0, 9)


def test_a_requeued_request_begins_anew(store: Session, clock: Clock) -> None:
    (request,) = store.put(max_attempts=2)
    (first,) = store.claim()
    crash(store, clock)
    abandon(store, 3)
    store.fail(store.claim(), [AT_ONCE])
    assert counts(store, request) == ("Failed", 2, 1, 0)
    store.requeue([request])
    assert counts(store, request) == ("Pending", 0, 0, 0)
    (held,) = store.claim()
    assert isinstance(held, LeasedRequest)
    assert held.lock_token > first.lock_token
