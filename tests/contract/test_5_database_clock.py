"""Promise 5: the database's clock, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from rowlease.model import NewRequest
from rowlease.store.routines import load_routines
from tests.contract.sessions import Clock, Session

#: What grants.sql opens to a role; everything else is called by routines only.
PUBLIC = {
    "enqueue", "enqueue_many", "begin_load", "report_load", "promote", "end_run",
    "dequeue", "complete", "fail", "abandon", "exchange",
    "renew", "maintain", "worker_heartbeat", "remove_worker", "depth", "explain",
    "operate", "pause", "resume", "configure_queue", "discard_load", "schema_version",
}  # fmt: skip
#: And these, where the database can notify.
NOTIFICATIONS = {"listen", "announce_idle"}
#: A time that a client may say: when a request shall run.
TIMES = {("enqueue", "p_due_time"), ("enqueue_many", "p_due_times")}


def test_no_routine_that_a_client_calls_takes_the_present_time(engine: str) -> None:
    routines = load_routines(engine)
    assert routines.keys() >= PUBLIC
    for name in PUBLIC | (NOTIFICATIONS & routines.keys()):
        for param, kind in routines[name].params.items():
            assert "now" not in param.lower()
            assert not re.search("time|date", kind.lower()) or (name, param) in TIMES, (name, param)


def test_only_the_routine_now_reads_a_clock(engine: str) -> None:
    reads = re.compile(
        r"clock_timestamp|statement_timestamp|transaction_timestamp|current_timestamp"
        r"|current_date|localtime|timeofday|sysutcdatetime|getutcdate|getdate|(?<!rowlease\.)\bnow\(",
        re.IGNORECASE,
    )
    found = {
        name
        for name, routine in load_routines(engine).items()
        if reads.search(re.sub(r"--.*", "", routine.body))
    }
    # These measure their own duration; they get the time as a parameter.
    measure = {"recount_queues", "keep_floor", "sweep_lane"}
    # These compare times that the server wrote by its own clock.
    of_the_server = {"diagnose_server", "diagnose_sessions", "metrics_server"}
    assert found - measure - of_the_server == {"now"}


@pytest.fixture
def real_clock(store: Session) -> Iterator[Callable[[], datetime]]:
    """The shipped routine `now`, and its time."""
    with store.shipped_clock():
        yield store.now


def test_the_clock_as_shipped_cannot_be_frozen(
    store: Session, real_clock: Callable[[], datetime]
) -> None:
    store.freeze(datetime(2000, 1, 1, tzinfo=UTC))
    first = real_clock()
    assert first > datetime(2026, 1, 1, tzinfo=UTC)
    store.begin()
    assert first < real_clock() < real_clock()  # it also advances inside a transaction
    store.commit()
    store.put()
    (held,) = store.claim()
    assert held.locked_time > first


def test_a_lease_is_as_long_as_the_database_says(store: Session, clock: Clock) -> None:
    store.configure_queue("default", lease_seconds=7)
    store.put(3)
    (by_queue,) = store.claim()
    (by_worker,) = store.claim(lease=timedelta(milliseconds=1500))
    assert by_queue.locked_time == by_worker.locked_time == clock.now
    assert by_queue.lock_expires_time == clock.now + timedelta(seconds=7)
    assert by_worker.lock_expires_time == clock.now + timedelta(milliseconds=1500)
    clock.advance(seconds=1)
    first, second = store.renew([by_queue, by_worker])
    assert first.lock_expires_time == second.lock_expires_time == clock.now + timedelta(seconds=7)
    (longer,) = store.renew([by_queue], lease=timedelta(minutes=1))
    assert longer.lock_expires_time == clock.now + timedelta(minutes=1)
    assert store.row(by_queue.request_id)["lock_expires_time"] == longer.lock_expires_time


def test_a_lease_ends_at_its_time_and_not_before(store: Session, clock: Clock) -> None:
    (request,) = store.put()
    store.claim("one")
    clock.advance(seconds=29, milliseconds=999)
    assert store.claim("two") == []
    store.maintain()
    assert store.row(request)["status"] == "Processing"
    clock.advance(milliseconds=1)
    assert [held.request_id for held in store.claim("two")] == [request]


def test_a_renewed_lease_is_not_broken_at_its_first_end(store: Session, clock: Clock) -> None:
    store.put()
    held = store.claim("one")
    for _ in range(5):
        clock.advance(seconds=29)
        store.renew(held)
    assert store.claim("two") == []
    clock.advance(seconds=30)
    assert len(store.claim("two")) == 1


def test_a_clock_set_back_never_makes_two_owners(store: Session, clock: Clock) -> None:
    store.put()
    (late,) = store.claim("one")
    clock.advance(hours=-1)
    assert store.claim("two") == []
    store.maintain()
    assert store.claim("two") == []
    clock.advance(hours=1, seconds=30)
    (held,) = store.claim("two")
    assert held.lock_token > late.lock_token


def test_a_delay_is_counted_from_the_databases_time(store: Session, clock: Clock) -> None:
    answers = store.enqueue_many(
        "default",
        [
            NewRequest(kind="delay", delay=timedelta(seconds=5)),
            NewRequest(kind="instant", due_time=clock.now + timedelta(seconds=6)),
            NewRequest(kind="past", due_time=clock.now - timedelta(days=1)),
            NewRequest(kind="negative", delay=timedelta(days=-1)),
        ],
    )
    rows = [store.row(answer.request_id or 0) for answer in answers]
    assert [(row["status"], row["due_time"] - clock.now) for row in rows] == [
        ("Scheduled", timedelta(seconds=5)),
        ("Scheduled", timedelta(seconds=6)),
        ("Pending", timedelta(0)),
        ("Pending", timedelta(0)),
    ]
    assert {row["requested_time"] for row in rows} == {clock.now}
    assert len(store.claim(limit=9)) == 2
    clock.advance(seconds=5)
    assert [held.kind for held in store.claim(limit=9)] == ["delay"]
    clock.advance(seconds=1)
    assert [held.kind for held in store.claim(limit=9)] == ["instant"]
