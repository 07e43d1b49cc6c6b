"""Batches: requests under one id, with counts, and requests that wait for the end of a batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowlease.errors import InvalidRequest, QueueFull
from rowlease.model import BatchState, Failure, LeasedRequest, NewRequest, Outcome
from tests.contract.sessions import Clock, PostgresSession, Session

Another = Callable[[], Session]
HOUR = timedelta(hours=1)
DEAD = Failure("broken", dead=True)


def asked(kind: str, **fields: Any) -> NewRequest:
    return NewRequest(kind=kind, payload="{}", **fields)


def put(store: Session, count: int = 1, **options: Any) -> list[int]:
    requests = [asked("member")] * count
    return [one.request_id for one in enqueued(store, requests, **options)]


def enqueued(store: Session, requests: list[NewRequest], **options: Any) -> list[Any]:
    return store.enqueue_many("default", requests, **options)


def callback(store: Session, after: str = "b") -> int:
    (one,) = enqueued(store, [asked("callback")], after=after)
    return int(one.request_id)


def state(store: Session, batch_id: str = "b") -> BatchState:
    (found,) = store.list_batches(batch_id)
    return found


def counts(store: Session, batch_id: str = "b") -> tuple[int, ...]:
    """Requests, live, complete, failed, cancelled."""
    return tuple(state(store, batch_id)[1:6])


def maintained(store: Session) -> bool:
    """Do the housekeeping, and tell whether a batch was finished by it."""
    return any(step.what == "batches finished" for step in store.maintain())


def status(store: Session, request: int) -> str:
    return str(store.row(request)["status"])


def test_a_callback_waits_until_every_request_of_its_batch_is_finished(store: Session) -> None:
    first, second = put(store, 2, batch_id="b")
    waits = callback(store)
    assert counts(store) == (2, 2, 0, 0, 0)
    store.complete([store.claim()[0]])
    assert not maintained(store)
    assert (counts(store), status(store, waits)) == ((2, 1, 1, 0, 0), "Scheduled")
    store.complete([store.claim()[0]])
    assert maintained(store)
    assert [store.row(one)["load_id"] for one in (first, second, waits)] == ["b", "b", None]
    (run,) = store.claim()
    assert run.request_id == waits
    assert json.loads(run.headers or "{}") == {
        "batch_id": "b", "batch_complete": "2", "batch_failed": "0", "batch_cancelled": "0",
    }  # fmt: skip
    assert counts(store) == (2, 0, 2, 0, 0)
    assert store.counted() == store.depth()


def test_the_counts_are_exact_before_they_are_folded_and_afterwards(store: Session) -> None:
    ids = put(store, 6, batch_id="b")
    complete, dead, waiting = store.claim(limit=3)
    store.complete([complete])
    store.fail([dead], [DEAD])
    store.cancel([ids[3]])
    store.operate("purge", ids=[ids[4]])
    assert counts(store) == (6, 2, 1, 1, 2)
    assert not maintained(store)
    assert counts(store) == (6, 2, 1, 1, 2)
    store.abandon([waiting])
    store.maintain()
    assert counts(store) == (6, 2, 1, 1, 2)
    assert store.counted() == store.depth()


def test_a_callback_keeps_its_headers(store: Session) -> None:
    put(store, batch_id="b")
    enqueued(store, [asked("callback", headers='{"tenant": "acme"}')], after="b")
    store.fail(store.claim(), [DEAD])
    assert maintained(store)
    (run,) = store.claim()
    headers = json.loads(run.headers or "{}")
    assert (headers["tenant"], headers["batch_failed"]) == ("acme", "1")


def test_a_dead_letter_is_finished_and_its_retry_does_not_make_the_callback_due_again(
    store: Session,
) -> None:
    (member,) = put(store, batch_id="b")
    waits = callback(store)
    store.fail(store.claim(), [DEAD])
    assert maintained(store)
    store.complete(store.claim())
    assert status(store, waits) == "Complete"
    finished = state(store).finished_time
    store.operate("requeue", ids=[member])
    assert counts(store) == (1, 1, 0, 0, 0)
    store.complete(store.claim())
    assert not maintained(store)
    assert (counts(store), state(store).finished_time) == ((1, 0, 1, 0, 0), finished)
    assert store.claim() == []


def test_a_dead_letter_that_is_requeued_before_the_end_is_waited_for(store: Session) -> None:
    first, _ = put(store, 2, batch_id="b")
    waits = callback(store)
    dead, other = store.claim(limit=2)
    store.fail([dead], [DEAD])
    store.operate("requeue", ids=[first])
    store.complete([other])
    assert not maintained(store)
    assert (counts(store), status(store, waits)) == ((2, 1, 1, 0, 0), "Scheduled")


@pytest.mark.parametrize("way", ["retries", "crashes", "declined", "broken"])
def test_every_way_to_a_dead_letter_is_counted(way: str, store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_crashes=1, unknown_kind_seconds=0)
    store.enqueue_many("default", [asked("member", max_attempts=1)], batch_id="b")
    held = store.claim()
    if way == "retries":
        store.fail(held, [Failure("no")])
    elif way == "crashes":
        store.renew(held, started=[True])
        clock.advance(seconds=31)
        store.maintain()
    elif way == "declined":
        store.decline(held, ["unknown"])
    else:
        store.renew(held, started=[True])
        store.operate("break", ids=[held[0].request_id])
    store.maintain()
    assert counts(store) == (1, 0, 0, 1, 0)
    assert state(store).finished_time == clock.now


def test_cancelling_and_purging_finish_a_batch_too(store: Session) -> None:
    first, _ = put(store, 2, batch_id="b")
    waits = callback(store)
    store.operate("cancel", ids=[first])
    store.operate("purge", queue="default", status=["Pending"])
    assert maintained(store)
    (run,) = store.claim()
    assert (run.request_id, counts(store)) == (waits, (2, 0, 0, 0, 2))


def test_cancelling_a_running_request_of_a_batch_finishes_it(store: Session) -> None:
    (member,) = put(store, batch_id="b")
    held = store.claim()
    store.operate("cancel", ids=[member])
    assert counts(store) == (1, 1, 0, 0, 0)
    store.fail(held, [Failure("stopped")])
    assert counts(store) == (1, 0, 0, 0, 1)
    assert maintained(store)


def test_a_request_that_waits_for_a_finished_batch_is_due_at_once(store: Session) -> None:
    put(store, batch_id="b")
    store.complete(store.claim())
    assert maintained(store)
    assert status(store, callback(store)) == "Pending"
    assert store.rows("batch_wait", "request_id") == []


def test_a_request_that_comes_after_the_end_of_its_batch_has_the_counts_too(
    store: Session,
) -> None:
    put(store, 2, batch_id="b")
    dead, complete = store.claim(limit=2)
    store.complete([complete])
    store.fail([dead], [DEAD])
    assert maintained(store)
    enqueued(store, [asked("callback", headers='{"tenant": "acme"}'), asked("other")], after="b")
    expected = {
        "batch_id": "b", "batch_complete": "1", "batch_failed": "1", "batch_cancelled": "0",
    }  # fmt: skip
    assert [json.loads(run.headers or "{}") for run in store.claim(limit=2)] == [
        {"tenant": "acme"} | expected,
        expected,
    ]
    store.operate("requeue", ids=[dead.request_id])
    callback(store)
    late = store.claim(limit=2)[1]
    assert json.loads(late.headers or "{}") == expected | {"batch_failed": "0"}


def test_a_duplicate_after_the_end_of_a_batch_keeps_its_headers(store: Session) -> None:
    put(store, batch_id="b")
    store.complete(store.claim())
    assert maintained(store)
    key = {"dedup_key": "k"}
    enqueued(store, [asked("other", **key)])
    enqueued(store, [asked("callback", **key)], after="b")
    assert store.claim()[0].headers is None


def test_headers_leave_room_for_the_counts_of_a_batch(store: Session) -> None:
    put(store, batch_id="b" * 100)
    with pytest.raises(InvalidRequest, match="at most 7168 bytes, because the batch adds"):
        enqueued(
            store,
            [asked("callback", headers=json.dumps({"a": "x" * 7168}))],
            after="b" * 100,
        )
    enqueued(store, [asked("callback", headers=json.dumps({"a": "x" * 7100}))], after="b" * 100)
    store.complete(store.claim())
    assert maintained(store)
    (run,) = store.claim()
    store.complete([run])
    (again,) = store.operate("requeue", ids=[run.request_id]).touched
    assert again.outcome is Outcome.OK
    assert json.loads(store.claim()[0].headers or "{}")["batch_complete"] == "1"


def test_a_batch_without_requests_is_finished(store: Session) -> None:
    key = {"dedup_key": "k"}
    enqueued(store, [asked("other", **key)])
    (answer,) = enqueued(store, [asked("member", **key)], batch_id="b")
    assert answer.outcome is Outcome.DUPLICATE
    waits = callback(store)
    assert maintained(store)
    assert counts(store) == (0, 0, 0, 0, 0)
    assert store.row(waits)["due_time"] == store.now()


def test_duplicates_neither_join_a_batch_nor_wait_for_one(store: Session) -> None:
    key = {"dedup_key": "k"}
    (first,) = enqueued(store, [asked("other", **key)])
    put(store, batch_id="b")
    enqueued(store, [asked("member", **key), asked("member")], batch_id="b")
    enqueued(store, [asked("callback", **key)], after="b")
    assert counts(store) == (2, 2, 0, 0, 0)
    assert store.rows("batch_wait", "request_id") == []
    assert store.row(first.request_id)["status"] == "Pending"


def test_a_batch_grows_until_it_is_finished(store: Session) -> None:
    put(store, batch_id="b")
    held = store.claim()
    put(store, batch_id="b")  # as a task of the batch does
    store.complete(held)
    assert not maintained(store)
    store.complete(store.claim())
    assert maintained(store)
    with pytest.raises(InvalidRequest, match='the batch "b" is finished and takes no more'):
        put(store, batch_id="b")
    assert counts(store) == (2, 0, 2, 0, 0)


def test_batches_wait_for_batches(store: Session) -> None:
    put(store, batch_id="one")
    put(store, 2, batch_id="two", after="one")
    last = callback(store, after="two")
    seen = []
    while held := store.claim(limit=10):
        seen.append(len(held))
        store.complete(held)
        store.maintain()
        store.maintain()
    assert (seen, status(store, last)) == ([1, 2, 1], "Complete")


@pytest.mark.parametrize(
    ("options", "request_options", "message"),
    [
        ({"after": "nothing"}, {}, 'there is no batch "nothing" to wait for'),
        ({"batch_id": "b", "after": "b"}, {}, "cannot wait for their own batch"),
        ({"batch_id": ""}, {}, "1 to 100 characters"),
        ({"batch_id": "x" * 101}, {}, "1 to 100 characters"),
        ({"after": "known"}, {"delay": HOUR}, "no due time of their own"),
    ],
)
def test_a_wrong_batch_is_refused_and_nothing_is_enqueued(
    options: dict[str, str], request_options: dict[str, Any], message: str, store: Session
) -> None:
    put(store, batch_id="known")
    before = store.everything()
    with pytest.raises(InvalidRequest, match=message):
        enqueued(store, [asked("member", **request_options)], **options)
    assert store.everything() == before


def test_a_refused_enqueue_makes_no_batch(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    put(store)
    with pytest.raises(QueueFull):
        put(store, batch_id="b")
    (answer,) = enqueued(store, [asked("member")], batch_id="b", wait=timedelta(seconds=1))
    assert answer.outcome is Outcome.FULL
    assert store.list_batches() == []


def test_a_repeated_enqueue_joins_once(store: Session) -> None:
    first = put(store, 2, batch_id="b", receipt_key="r")
    assert put(store, 2, batch_id="b", receipt_key="r") == first
    assert counts(store) == (2, 2, 0, 0, 0)


def test_the_callback_of_a_transaction_that_rolls_back_does_not_exist(store: Session) -> None:
    put(store, batch_id="b")
    store.begin()
    put(store, batch_id="b")
    callback(store)
    store.rollback()
    assert counts(store) == (1, 1, 0, 0, 0)
    assert store.rows("batch_wait", "request_id") == []


def test_a_batch_is_not_finished_while_a_transaction_adds_to_it(
    store: Session, another: Another
) -> None:
    producer = another()
    put(store, batch_id="b")
    waits = callback(store)
    producer.begin()
    put(producer, batch_id="b")
    store.complete(store.claim())
    assert not maintained(store)
    assert counts(store) == (1, 0, 1, 0, 0)
    producer.commit()
    assert not maintained(store)
    assert counts(store) == (2, 1, 1, 0, 0)
    store.complete(store.claim())
    assert maintained(store)
    assert store.claim()[0].request_id == waits


def test_a_batch_whose_counts_are_not_all_folded_is_not_finished(store: Session) -> None:
    for _ in range(10):
        put(store, batch_id="other")
    put(store, batch_id="b")
    store.maintain(1)  # folds ten rows of counts
    assert state(store).finished_time is None
    assert counts(store) == (1, 1, 0, 0, 0)


def test_an_enqueue_that_meets_the_end_of_its_batch_is_due_at_once(
    store: Session, another: Another
) -> None:
    producer = another()
    put(store, batch_id="b")
    store.complete(store.claim())
    store.begin()
    assert maintained(store)
    late = producer.waiting(lambda: callback(producer))
    store.commit()
    assert status(store, late.result()) == "Pending"


def test_a_callback_that_is_locked_puts_the_end_of_its_batch_off(
    store: Session, another: Another
) -> None:
    operator = another()
    put(store, batch_id="b")
    waits = callback(store)
    store.complete(store.claim())
    operator.begin()
    operator.operate("reprioritise", arguments={"priority": 3}, ids=[waits])
    assert not maintained(store)
    operator.commit()
    assert maintained(store)
    (run,) = store.claim()
    assert (run.request_id, run.priority) == (waits, 3)


@pytest.mark.parametrize("verb", ["cancel", "purge"])
def test_a_callback_that_is_gone_ends_its_wait_with_the_batch(verb: str, store: Session) -> None:
    put(store, batch_id="b")
    waits = callback(store)
    store.operate(verb, ids=[waits])
    store.complete(store.claim())
    assert maintained(store)
    assert store.rows("batch_wait", "request_id") == []
    assert store.claim() == []


def test_a_callback_that_an_operator_made_due_is_not_made_due_again(
    store: Session, clock: Clock
) -> None:
    put(store, batch_id="b")
    waits = callback(store)
    store.operate("reschedule", ids=[waits])
    member, early = store.claim(limit=2)
    assert early.request_id == waits
    store.fail([early], [Failure("not yet", after=HOUR)])
    store.complete([member])
    assert maintained(store)
    assert store.row(waits)["due_time"] == clock.now + HOUR


def test_explain_names_the_batch(store: Session) -> None:
    put(store, 3, batch_id="b")
    waits = callback(store)
    store.complete(store.claim())
    found = store.explain(waits)
    assert found.reason == "batch"
    assert found.message == ('it waits for the batch "b" (unfinished: 2 of 3)')


def test_explain_does_not_name_the_batch_of_a_request_that_was_rescheduled(store: Session) -> None:
    put(store, batch_id="b")
    waits = callback(store)
    store.operate("reschedule", arguments={"delay_ms": 3_600_000}, ids=[waits])
    assert store.explain(waits).reason == "scheduled"


def test_batches_are_dropped_with_the_history_of_their_requests(
    store: Session, clock: Clock
) -> None:
    put(store, batch_id="done")
    store.complete(store.claim())
    assert maintained(store)
    clock.advance(seconds=1)
    put(store, batch_id="open")
    clock.advance(timedelta(days=6, hours=23))
    store.maintain()
    assert [one.batch_id for one in store.list_batches()] == ["open", "done"]
    clock.advance(timedelta(hours=2))
    store.maintain()
    assert [one.batch_id for one in store.list_batches()] == ["open"]


def test_a_batch_with_dead_letters_is_kept_so_that_a_later_one_counts_its_own(
    store: Session, clock: Clock
) -> None:
    (member,) = put(store, batch_id="b")
    store.fail(store.claim(), [DEAD])
    assert maintained(store)
    clock.advance(timedelta(days=8))
    store.maintain()
    assert counts(store) == (1, 0, 0, 1, 0)
    store.operate("requeue", ids=[member])
    store.maintain()
    assert counts(store) == (1, 1, 0, 0, 0)
    store.complete(store.claim())
    store.maintain()
    assert store.list_batches() == []
    put(store, batch_id="b")
    assert counts(store) == (1, 1, 0, 0, 0)


@pytest.mark.new_database
@pytest.mark.only_on("postgresql", why="it counts pages")
def test_one_batch_is_read_by_its_key(store: PostgresSession) -> None:
    store.execute(
        "insert into rowlease.batch (batch_id, created_time)"
        " select 'b' || n, now() from generate_series(1, 10000) as n"
    )
    store.execute(
        "set plan_cache_mode = force_generic_plan"
    )  # as functions have before PostgreSQL 18
    store.list_batches("b7")
    read = store.measured(lambda: store.list_batches("b7"))
    assert [one.batch_id for one in read.value] == ["b7"]
    assert read.pages["batch"] < 10


def test_a_load_is_a_batch_from_its_promotion_on(store: Session) -> None:
    with pytest.raises(InvalidRequest, match='no batch "l" to wait for'):
        callback(store, after="l")
    rows = [{"kind": "member", "dedup_key": key} for key in (None, "k", "k")]
    run = store.staged("l", rows)
    store.promote("l", run, 3)
    waits = callback(store, after="l")
    assert counts(store, "l") == (2, 2, 0, 0, 0)
    store.complete(store.claim(limit=2))
    assert maintained(store)
    assert (counts(store, "l"), store.claim()[0].request_id) == ((2, 0, 2, 0, 0), waits)


def test_a_load_in_the_lane_is_a_batch(store: Session) -> None:
    store.lay("l", store.begun("l"), [{"kind": "member"}] * 3)
    store.promote("l", store.begun("l"), 3)
    store.complete(store.claim(limit=2))
    assert not maintained(store)
    store.operate("purge", queue="default", status=["Pending"])
    assert maintained(store)
    assert counts(store, "l") == (3, 0, 2, 0, 1)


def test_a_request_without_a_batch_has_no_count_of_one(store: Session) -> None:
    put(store, 3)
    store.complete(store.claim(limit=2))
    assert set(store.rows("queue_depth", "load_id")) <= {(None,)}
    assert store.list_batches() == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "claim", "complete", "fail", "dead", "abandon", "snooze", "cancel", "requeue",
             "purge", "maintain", "later"]
        ),
        st.integers(0, 5),
    ),
    max_size=25,
)  # fmt: skip


def test_the_counts_of_a_batch_are_those_of_its_requests(store: Session, clock: Clock) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=STEPS)
    def check(steps: list[tuple[str, int]]) -> None:
        store.reset()
        ids = put(store, 2, batch_id="b")
        waits = callback(store)
        held: list[LeasedRequest] = []
        ended = 0
        for what, number in steps:
            one = ids[number % len(ids)]
            if what == "put" and not ended:
                ids += put(store, 1 + number % 2, batch_id="b")
            elif what == "claim":
                held += [leased for leased in store.claim() if leased.request_id != waits]
            elif what in ENDINGS and held:
                ENDINGS[what](store, [held.pop(number % len(held))])
            elif what == "cancel":
                store.operate("cancel", ids=[one])
            elif what == "requeue":
                store.operate("requeue", ids=[one])
            elif what == "purge":
                store.operate("purge", queue="default")
            elif what == "later":
                clock.advance(seconds=31)
            ended += maintained(store) if what == "maintain" else 0
            check_counts(store, ids)
            # The callback becomes due once, and only after all others were finished.
            assert ended <= 1
            assert (store.row(waits)["due_time"] > clock.now + 400 * HOUR) == (ended == 0)
        assert store.counted() == store.depth()

    check()


ENDINGS: dict[str, Callable[[Session, list[LeasedRequest]], Any]] = {
    "complete": lambda store, held: store.complete(held),
    "fail": lambda store, held: store.fail(held, [Failure("no", after=timedelta(0))]),
    "dead": lambda store, held: store.fail(held, [DEAD]),
    "abandon": lambda store, held: store.abandon(held),
    "snooze": lambda store, held: store.snooze(held, [timedelta(minutes=1)]),
}


def check_counts(store: Session, ids: list[int]) -> None:
    rows = dict(store.rows("requests", "request_id", "status"))
    found = Counter(rows.get(one, "purged") for one in ids)
    live = found["Scheduled"] + found["Pending"] + found["Processing"]
    gone = found["Cancelled"] + found["purged"]
    assert counts(store) == (len(ids), live, found["Complete"], found["Failed"], gone)


def test_a_filter_does_not_reschedule_what_waits_for_a_batch(store: Session, clock: Clock) -> None:
    (member,) = put(store, batch_id="b")
    waits = callback(store)
    expected = [(member, Outcome.OK), (waits, Outcome.WAITS)]
    dry = store.operate("reschedule", dry_run=True, queue="default")
    assert sorted((one.request_id, one.outcome) for one in dry.touched) == expected
    done = store.operate("reschedule", arguments={"delay_ms": 60_000}, queue="default")
    assert sorted((one.request_id, one.outcome) for one in done.touched) == expected
    ((num,),) = store.rows("operation", "num_requests")
    assert num == 1
    assert store.row(member)["due_time"] == clock.now + timedelta(minutes=1)
    assert store.row(waits)["due_time"].year == 9999
    (by_id,) = store.operate("reschedule", arguments={"delay_ms": 60_000}, ids=[waits]).touched
    assert (by_id.outcome, store.row(waits)["status"]) == (Outcome.OK, "Scheduled")
    again = store.operate("reschedule", queue="default").touched  # it waits no more
    assert [one.outcome for one in again] == [Outcome.OK, Outcome.OK]


@pytest.mark.parametrize("verb", ["cancel", "purge", "reprioritise"])
def test_other_verbs_take_by_a_filter_what_waits_for_a_batch(verb: str, store: Session) -> None:
    put(store, batch_id="b")
    waits = callback(store)
    arguments = {"priority": 3} if verb == "reprioritise" else {}
    done = store.operate(verb, arguments=arguments, queue="default", status=["Scheduled"])
    assert [(one.request_id, one.outcome) for one in done.touched] == [(waits, Outcome.OK)]
