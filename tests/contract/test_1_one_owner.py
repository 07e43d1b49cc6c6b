"""Promise 1: at any moment at most one lease on a request is valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import product

import pytest

from rowlease.errors import RoutineError
from rowlease.model import Failure, Held, LeasedRequest, Outcome
from tests.contract.lane import named, promoted
from tests.contract.sessions import Clock, Session

pytestmark = pytest.mark.both_ways

#: Everything a worker may say of a lease, answered with one outcome for each request.
WORDS: dict[str, Callable[[Session, Sequence[Held | LeasedRequest]], list[Outcome]]] = {
    "complete": lambda store, held: store.complete(held),
    "complete, beside another": lambda store, held: store.complete([*held, Held(10**9, 1)])[
        : len(held)
    ],
    "fail": lambda store, held: store.fail(held, [Failure("x")] * len(held)),
    "abandon": lambda store, held: store.abandon(held),
    "renew": lambda store, held: [answer.outcome for answer in store.renew(held)],
    "exchange, completed": lambda store, held: (
        store.exchange("one", ["default"], 0, completed=[(h, None) for h in held]).completed
    ),
    "exchange, failed": lambda store, held: (
        store.exchange("one", ["default"], 0, failed=[(h, Failure("x")) for h in held]).failed
    ),
}
#: Those that end the lease.
LAST_WORDS = [word for word in WORDS if word != "renew"]


def taken_back(store: Session, clock: Clock) -> None:
    clock.advance(seconds=31)
    store.maintain()


def leased_again(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    assert store.claim("two")


def leased_again_by_the_same_worker(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    assert store.claim("one")


def failed_by_the_next(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    store.fail(store.claim("two"), [Failure("x")])


def abandoned_by_the_next(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    store.abandon(store.claim("two"))


def completed_by_the_next(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    store.complete(store.claim("two"))


def cancelled(store: Session, clock: Clock) -> None:
    taken_back(store, clock)
    store.cancel([id for (id,) in store.rows("queue", "request_id")])


def cancelled_while_it_ran(store: Session, clock: Clock) -> None:
    store.cancel([id for (id,) in store.rows("queue", "request_id")])
    taken_back(store, clock)


def crashed_too_often(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_crashes=1)
    taken_back(store, clock)
    assert store.rows("queue", "status") == [("Failed",)]


def requeued(store: Session, clock: Clock) -> None:
    crashed_too_often(store, clock)
    assert store.operate("requeue", queue="default")


MEANWHILE = [
    taken_back,
    leased_again,
    leased_again_by_the_same_worker,
    failed_by_the_next,
    abandoned_by_the_next,
    completed_by_the_next,
    cancelled,
    cancelled_while_it_ran,
    crashed_too_often,
    requeued,
]


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda happened: happened.__name__)
def test_a_worker_whose_lease_was_broken_changes_nothing_and_gets_lease_lost(
    store: Session, clock: Clock, meanwhile: Callable[[Session, Clock], None]
) -> None:
    for word, say in WORDS.items():
        store.reset()
        store.put()
        late = store.claim("one")
        meanwhile(store, clock)
        before = store.everything()
        assert say(store, late) == [Outcome.LEASE_LOST], word
        assert store.everything() == before, word


def test_a_lease_that_ran_out_is_valid_until_it_is_broken(store: Session, clock: Clock) -> None:
    for word, say in WORDS.items():
        store.put()
        late = store.claim()
        clock.advance(days=1)
        assert say(store, late) == [Outcome.OK], word
        store.reset()


def test_an_outcome_already_given_cannot_be_changed(store: Session) -> None:
    for last, word in product(LAST_WORDS, WORDS):
        store.reset()
        store.put()
        held = store.claim()
        assert WORDS[last](store, held) == [Outcome.OK]
        before = store.everything()
        assert WORDS[word](store, held) == [Outcome.REPEAT], (last, word)
        assert store.everything() == before, (last, word)


def test_the_new_owner_is_not_disturbed_by_the_old_one(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    late = store.claim("one")
    clock.advance(seconds=31)
    owner = store.claim("two")
    assert [held.request_id for held in owner] == [request]
    for word in WORDS.values():
        assert word(store, late) == [Outcome.LEASE_LOST]
    assert store.complete(owner) == [Outcome.OK]
    assert store.rows("queue_history", "request_id", "locked_by") == [(request, "two")]


def test_every_claim_brings_a_greater_token_whatever_ended_the_last(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", max_attempts=1)
    store.put()
    tokens = []

    def claim() -> list[LeasedRequest]:
        held = store.claim()
        tokens.append(held[0].lock_token)
        return held

    store.abandon(claim())
    store.fail(claim(), [Failure("no attempts left")])
    store.operate("requeue", queue="default")
    store.fail(claim(), [Failure("given up", dead=True)])
    store.operate("requeue", queue="default")
    claim()
    clock.advance(seconds=31)
    store.maintain()
    store.operate("requeue", queue="default")
    store.renew(claim())
    assert tokens == sorted(set(tokens))
    assert store.rows("queue", "lock_token", "num_attempts") == [(tokens[-1], 1)]


@pytest.mark.parametrize("limit", [1, 3])
def test_a_token_names_one_claim_in_all_timelines(store: Session, limit: int) -> None:
    """A server that was promoted or restored has lost claims that workers still hold.

    A transaction that is rolled back represents the lost timeline.
    """
    for word, say in WORDS.items():
        store.reset()
        store.put(3)
        store.begin()
        lost = store.claim("one", limit)
        store.rollback()
        owner = store.claim("two", limit)
        assert [held.request_id for held in owner] == [held.request_id for held in lost]
        assert say(store, lost) == [Outcome.LEASE_LOST] * limit, word
        assert say(store, owner) == [Outcome.OK] * limit, word


def test_a_token_is_exact_where_numbers_are_floating_point(store: Session) -> None:
    """JSON has no other numbers; a million claims of one request stay below 2^53."""
    store.put(100)
    last: dict[int, int] = {}
    for _ in range(3):
        held = store.claim(limit=100)
        steps = [each.lock_token - last.get(each.request_id, 0) for each in held]
        assert all(1 <= step <= 2**32 for step in steps)
        assert max(steps) > 2**30  # of 100 random numbers
        last = {each.request_id: each.lock_token for each in held}
        store.abandon(held)


def test_a_batch_is_answered_request_by_request_in_the_order_given(
    store: Session, clock: Clock
) -> None:
    for word, say in WORDS.items():
        store.reset()
        store.put(2)
        broken = store.claim("one", 2)
        clock.advance(seconds=31)
        again, _ = store.claim("two", 2)
        store.put(3)
        done, first, second = store.claim("one", 3)
        store.complete([done])
        batch: list[Held | LeasedRequest]
        batch = [second, broken[1], Held(2**40, 1), first, done, broken[0], again]
        assert say(store, []) == []
        assert say(store, batch) == [
            Outcome.OK,
            Outcome.LEASE_LOST,
            Outcome.NOT_FOUND,
            Outcome.OK,
            Outcome.REPEAT,
            Outcome.LEASE_LOST,
            Outcome.OK,
        ], word


def test_an_old_and_the_valid_token_in_one_batch_have_their_own_outcomes(
    store: Session, clock: Clock
) -> None:
    for word, say in WORDS.items():
        store.reset()
        store.put()
        (late,) = store.claim("one")
        clock.advance(seconds=31)
        (owner,) = store.claim("two")
        forged = Held(owner.request_id, owner.lock_token + 1)
        assert say(store, [late, owner, forged]) == [
            Outcome.LEASE_LOST,
            Outcome.OK,
            Outcome.LEASE_LOST,
        ], word


def test_a_request_named_twice_in_one_batch_is_settled_once(store: Session) -> None:
    for word, say in WORDS.items():
        store.reset()
        store.put()
        (held,) = store.claim()
        assert say(store, [held, held]) == [Outcome.OK, Outcome.OK], word
        (row,) = store.rows("requests", "request_id", "num_attempts", "num_abandons")
        assert row == (held.request_id, int(word != "abandon"), int(word == "abandon")), word
        live = len(store.rows("queue", "kind"))
        assert sum(sum(counts[2:]) for counts in store.depth()) == live, word


def test_a_request_both_completed_and_failed_in_one_exchange_is_complete(store: Session) -> None:
    (request,) = store.put()
    (held,) = store.claim()
    answer = store.exchange(
        "one", ["default"], 1, completed=[(held, None)], failed=[(held, Failure("x"))]
    )
    assert (answer.completed, answer.failed) == ([Outcome.OK], [Outcome.REPEAT])
    assert store.row(request)["status"] == "Complete"


def test_a_token_of_no_claim_is_refused(store: Session) -> None:
    (waiting, dropped) = store.put(2)
    store.cancel([dropped])
    before = store.everything()
    forged = [Held(id, token) for id in (waiting, dropped) for token in (0, 1, -1)]
    for word, say in WORDS.items():
        assert say(store, forged) == [Outcome.LEASE_LOST] * 6, word
        assert store.everything() == before, word


def test_only_the_owner_learns_of_a_cancellation(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    (late,) = store.claim("one")
    clock.advance(seconds=31)
    (owner,) = store.claim("two")
    store.cancel([request])
    stale, answer = store.renew([late, owner])
    assert stale[:3] == (request, Outcome.LEASE_LOST, None)
    assert answer.outcome == Outcome.CANCEL_REQUESTED
    assert answer.lock_expires_time == owner.lock_expires_time


def test_arrays_that_do_not_fit_together_are_refused(store: Session) -> None:
    store.put()
    (held,) = store.claim()
    before = store.everything()
    with pytest.raises(RoutineError, match="same length"):
        store.complete([held], ["1", "2"])
    with pytest.raises(RoutineError, match="same length"):
        store.renew([held], started=[])
    with pytest.raises(RoutineError, match="same length"):
        store.fail([held], [])
    assert store.everything() == before


@pytest.mark.only_on("sqlserver", why="there arrays are JSON text")
def test_sql_may_write_the_arrays_of_exchange_in_any_way(store: Session) -> None:
    store.put(2)
    (one, two) = store.claim(limit=2)
    rows = store.execute(
        f"exec rowlease.exchange N'one', N'[\"default\"]', 0,"
        f" @p_complete_ids = N' [ {one.request_id} ]\n',"
        f" @p_complete_tokens = N'[{one.lock_token}] ',"
        f" @p_fail_ids = N'\n[{two.request_id}]', @p_fail_tokens = N' [{two.lock_token}\n]',"
        " @p_errors = N'[\"x\"]', @p_dead = N'[true]'"
    )
    assert [(row[0], row[-1]) for row in rows] == [(one.request_id, "ok"), (two.request_id, "ok")]


@pytest.mark.only_on("postgresql", why="its tables can be locked against readers")
def test_a_delayed_renewal_makes_no_lease_shorter(
    store: Session, another: Callable[[], Session]
) -> None:
    """It counts from its write: a later one, on another connection, may have been faster."""
    dba, worker = another(), another()
    for session in (store, dba, worker):
        session.freeze(None)
    store.put()
    held = store.claim()
    dba.begin()
    dba.execute("lock table rowlease.queue_settings")
    delayed = worker.waiting(lambda: worker.renew(held, lease=timedelta(seconds=30)))
    answered = dba.now()
    dba.commit()
    (renewal,) = delayed.result()
    assert renewal.lock_expires_time is not None
    assert renewal.lock_expires_time >= answered + timedelta(seconds=30)


@pytest.mark.only_on("postgresql", why="its tables can be locked against writers alone")
@pytest.mark.parametrize("policy", ["strict", "weighted"])
@pytest.mark.parametrize("place", ["one", "some", "lane", "before the lane"])
def test_a_claim_that_is_delayed_gives_the_whole_lease(
    store: Session, another: Callable[[], Session], place: str, policy: str
) -> None:
    """It counts from the write of its row; a worker counts from before its call."""
    dba, worker = another(), another()
    for session in (store, dba, worker):
        session.freeze(None)
    store.configure_queue("default", policy=policy)
    if place != "lane":
        store.put(2)
    if place.endswith("lane"):
        promoted(store, "load", named("a", "b"))
    dba.begin()
    dba.execute("lock table rowlease.queue in share mode")
    delayed = worker.waiting(lambda: worker.claim(limit=1 if place == "one" else 4))
    answered = dba.now()
    dba.commit()
    claimed = delayed.result()
    assert len(claimed) == {"one": 1, "before the lane": 4}.get(place, 2)
    for held in claimed:
        assert held.locked_time >= answered
        assert held.lock_expires_time - held.locked_time == timedelta(seconds=30)
