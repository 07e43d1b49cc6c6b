"""Calls in a caller's transaction at REPEATABLE READ or SERIALIZABLE, on PostgreSQL.

Statements of such a transaction see what was there at its first one. So a call that must see what
others have done since either fails to serialize, and nothing of it remains, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlease.errors import ConfigError, StoreConflict
from rowlease.model import NewRequest, Outcome
from tests.contract.sessions import Session

Another = Callable[[], Session]
Old = Callable[[], Session]
Call = Callable[[Session], Any]
pytestmark = pytest.mark.only_on(
    "postgresql", why="the only one whose routines run at another isolation level"
)


@pytest.fixture(params=["repeatable read", "serializable"])
def old(request: pytest.FixtureRequest, another: Another) -> Old:
    """Opens a session in a transaction of this level, which sees what is there now."""

    def begin() -> Session:
        session = another()
        session.execute(f"begin isolation level {request.param}")
        session.execute("select from rowlease.queue limit 1")
        return session

    return begin


def of_batch(store: Session, **of: Any) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")], **of)


def work(store: Session) -> None:
    store.complete(store.claim())


# -- what counts what others have committed is refused ---------------------------------------------


def promote(session: Session) -> None:
    ((number,),) = session.rows("load", "run_number")
    session.promote("load", number, 1)


COUNTING: dict[str, Call] = {
    "an enqueue into a queue with a capacity": lambda s: s.put(),
    "a row of the inbox of such a queue": lambda s: s.execute(
        "insert into rowlease.inbox (kind) values ('a')"
    ),
    "a claim of a queue with a limit": lambda s: s.claim(),
    "promote": promote,
    "maintain": lambda s: s.maintain(),
    "finish_batches": lambda s: s.finish_batches(),
    "recount": lambda s: s.recount(),
    "delete_queue": lambda s: s.delete_queue("default", purge=True),
    "forget_stream": lambda s: s.forget_stream("stream"),
}


@pytest.mark.parametrize("name", COUNTING)
def test_a_call_that_counts_what_others_have_committed_is_refused(
    store: Session, old: Old, name: str
) -> None:
    store.put()
    store.configure_queue("other")
    store.staged("load", [{"kind": "a"}], queue="other")
    store.configure_queue("default", capacity=10, max_in_flight=1)
    before = store.everything()
    caller = old()
    with pytest.raises((ConfigError, psycopg.DatabaseError), match="at READ COMMITTED") as refused:
        COUNTING[name](caller)
    cause = refused.value.__cause__ or refused.value
    assert isinstance(cause, psycopg.DatabaseError)
    assert cause.sqlstate == "25000"
    caller.rollback()
    assert store.everything() == before


def test_a_rate_and_a_rate_of_groups_are_limits_too(store: Session, old: Old) -> None:
    store.put(group_key="g")
    for rate in ("rate", "group_rate"):
        store.configure_queue("default", **{"rate": None, "group_rate": None, rate: "5/1s"})
        with pytest.raises(ConfigError, match="at READ COMMITTED"):
            old().claim()


# -- what others have changed since then cannot be serialized --------------------------------------


def test_an_outcome_after_a_renewal_cannot_be_serialized(store: Session, old: Old) -> None:
    store.put(2)
    held = store.claim(limit=2)
    caller, snoozing = old(), old()
    store.renew(held)
    with pytest.raises(StoreConflict):
        caller.complete(held[:1])
    with pytest.raises(StoreConflict):
        snoozing.snooze(held[1:], [timedelta(seconds=1)])
    for each in (caller, snoozing):
        each.rollback()
    assert store.complete(held) == [Outcome.OK] * 2


def test_an_outcome_that_is_reported_first_keeps_renewals_away(store: Session, old: Old) -> None:
    store.put()
    held = store.claim()
    caller = old()
    assert caller.complete(held) == [Outcome.OK]
    assert [each.outcome for each in store.renew(held)] == [Outcome.BUSY]
    caller.commit()
    assert store.complete(held) == [Outcome.REPEAT]


def test_an_outcome_of_a_lease_that_was_broken_since_cannot_be_serialized(
    store: Session, old: Old
) -> None:
    (request,) = store.put()
    held = store.claim()
    caller = old()
    store.operate("break", ids=[request])
    with pytest.raises(StoreConflict):
        caller.complete(held)


ONCE: dict[str, Call] = {
    "a receipt": lambda s: s.enqueue_many("default", [NewRequest(kind="a")], receipt_key="r"),
    "a dedup key": lambda s: s.put(dedup_key="k"),
    "a new batch": lambda s: of_batch(s, batch_id="new"),
    "a load": lambda s: s.begun("load", f"run of {id(s)}"),
    "a schedule": lambda s: s.put_schedule("s", "0 3 * * *", "k"),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_another_has_made_since_is_not_made_twice(store: Session, old: Old, name: str) -> None:
    caller = old()
    ONCE[name](store)
    before = store.everything()
    with pytest.raises(StoreConflict):
        ONCE[name](caller)
    caller.rollback()
    assert store.everything() == before


@pytest.mark.parametrize("of", ["batch_id", "after"])
def test_a_batch_that_has_been_finished_since_takes_no_requests(
    store: Session, old: Old, of: str
) -> None:
    of_batch(store, batch_id="b")
    caller = old()
    work(store)
    assert store.finish_batches("b") == 1
    with pytest.raises(StoreConflict):
        of_batch(caller, **{of: "b"})


def test_a_plain_claim_leases_nothing_that_another_has_leased_since(
    store: Session, old: Old
) -> None:
    store.put()
    caller = old()
    (held,) = store.claim()
    with pytest.raises(StoreConflict):
        caller.claim("two")
    caller.rollback()
    assert store.complete([held]) == [Outcome.OK]
