"""An id is never handed out again, also after a replication that left the sequences behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import StoreConflict
from rowlease.model import Advanced, NewRequest
from tests.contract.sessions import PostgresSession, Session

Another = Callable[[], Session]
SKIPPED = 1_000_000
HOUR = timedelta(hours=1)


def waiting(store: Session) -> None:
    store.put(3)


def finished(store: Session) -> None:
    store.put(3)
    store.complete(store.claim(limit=3))


def in_the_lane(store: Session) -> None:
    store.lay("l", store.begun("l"), [{"kind": "a"}] * 3)
    store.promote("l", store.begun("l"), 3)


def staged_in_the_lane(store: Session) -> None:
    store.lay("l", store.begun("l"), [{"kind": "a"}] * 3)


@pytest.mark.parametrize("rows", [waiting, finished, in_the_lane, staged_in_the_lane])
def test_a_sequence_that_is_behind_is_advanced(
    rows: Callable[[Session], Any], store: Session
) -> None:
    rows(store)
    (last,) = store.put()
    store.remove("queue", request_id=last)
    assert store.advance_ids() == []
    store.restart_ids()
    (advanced,) = store.advance_ids()
    assert (advanced.was, advanced.next_id) == (1, advanced.next_id)
    assert last - 2 + SKIPPED <= advanced.next_id <= last + SKIPPED
    assert store.put() == [advanced.next_id]
    assert store.advance_ids() == []


def test_a_sequence_in_order_stays(store: Session) -> None:
    before = store.put(3)
    assert store.advance_ids() == []
    assert before[-1] < store.put()[0] < before[-1] + 1000


def test_migrate_advances_the_sequence(store: Session) -> None:
    (last,) = store.put(3)[-1:]
    assert store.migrate().advice is None
    store.restart_ids()
    assert "it was advanced from 1 to" in (store.migrate().advice or "")
    assert store.put() == [last + SKIPPED]


postgresql = pytest.mark.only_on("postgresql", why="identity columns of SQL Server follow the ids")


@postgresql
def test_a_worker_may_advance_the_sequence(store: PostgresSession) -> None:
    store.put(3)
    store.restart_ids()
    with store.acting_as("worker"):
        assert [one.was for one in store.advance_ids()] == [1]


@pytest.mark.only_on("sqlserver", why="on PostgreSQL a worker may advance it")
def test_a_worker_is_told_who_may_advance_the_sequence(store: Session) -> None:
    store.put(3)
    store.restart_ids()
    told = pytest.raises(StoreConflict, match="run `rowlease migrate`, or as the owner")
    with store.acting_as("worker"), told:
        store.advance_ids()


@postgresql
def test_the_sequences_of_operations_and_of_waiters_are_advanced_too(
    store: PostgresSession,
) -> None:
    store.configure_queue("default", capacity=1)
    store.put()
    for sequence in ("operation_operation_id_seq", "queue_waiter_waiter_id_seq"):
        store.execute(f"select setval('rowlease.{sequence}', 41, true)")
    store.operate("reprioritise", arguments={"priority": 1}, queue="default")
    store.enqueue_many("default", [NewRequest(kind="a")], wait=HOUR)
    for sequence in ("operation_operation_id_seq", "queue_waiter_waiter_id_seq"):
        store.execute(f"select setval('rowlease.{sequence}', 7, true)")
    ((operation,),) = store.rows("operation", "max(operation_id)")
    assert sorted(store.advance_ids()) == [
        Advanced("rowlease.operation_operation_id_seq", 8, operation + SKIPPED),
        Advanced("rowlease.queue_waiter_waiter_id_seq", 8, 42 + SKIPPED),
    ]
    assert store.advance_ids() == []


@postgresql
def test_the_lock_waits_for_transactions_that_have_taken_an_id(
    store: PostgresSession, another: Another
) -> None:
    """So no id is taken while it looks for the largest one."""
    (last,) = store.put(3)[-1:]
    store.restart_ids()
    store.execute(f"select setval('rowlease.queue_request_id_seq', {last})")
    producer = another()
    producer.begin()
    late = producer.put()[0]
    store.restart_ids()
    with pytest.raises(StoreConflict, match="a transaction that has taken an id has been open"):
        store.advance_ids()
    advancing = store.waiting(store.advance_ids)
    producer.commit()
    assert [one.next_id for one in advancing.result()] == [late + SKIPPED]


@postgresql
def test_an_id_that_was_written_by_hand_is_no_reason(store: PostgresSession) -> None:
    store.put()
    store.complete(store.claim())
    store.execute("update rowlease.queue_history set request_id = 4611686018427387904")
    assert store.advance_ids() == []


@postgresql
def test_a_read_only_session_advances_nothing(store: PostgresSession) -> None:
    store.put(3)
    store.restart_ids()
    store.execute("set default_transaction_read_only = on")
    assert store.advance_ids() == []
    assert [one.finding for one in store.diagnose() if one.finding == "ids"] == ["ids"]
    store.execute("set default_transaction_read_only = off")
    assert [one.was for one in store.advance_ids()] == [1]


@postgresql
def test_doctor_names_the_sequence_and_the_call_that_advances_it(store: PostgresSession) -> None:
    (last,) = store.put(3)[-1:]
    assert [one for one in store.diagnose() if one.finding == "ids"] == []
    store.restart_ids()
    (found,) = [one for one in store.diagnose() if one.finding == "ids"]
    assert found.subject == "rowlease.queue_request_id_seq"
    assert f"hands out the id 1 next, although the largest id is {last}" in found.message
    store.execute(found.action.partition(": ")[2])
    assert [one for one in store.diagnose() if one.finding == "ids"] == []


@postgresql
def test_doctor_names_a_sequence_that_has_few_ids_left(store: PostgresSession) -> None:
    (last,) = store.put(3)[-1:]
    for value in (2**62, 2**63 - 1):
        store.execute(f"select setval('rowlease.queue_request_id_seq', {value})")
        (found,) = [one for one in store.diagnose() if one.finding == "ids"]
        assert "after 9223372036854775807 it hands out none" in found.message
        assert found.action.endswith(f"select setval('rowlease.queue_request_id_seq', {last})")
        store.execute(found.action.partition(": ")[2])
        assert [one for one in store.diagnose() if one.finding == "ids"] == []
    assert store.put() == [last + 1]


@postgresql
@pytest.mark.parametrize("sequence", ["operation_operation_id_seq", "queue_waiter_waiter_id_seq"])
def test_doctor_names_every_sequence_that_has_few_ids_left(
    store: PostgresSession, sequence: str
) -> None:
    store.execute(f"select setval('rowlease.{sequence}', {2**62})")
    (found,) = store.diagnose()
    assert (found.finding, found.subject) == ("ids", f"rowlease.{sequence}")
    assert "after 9223372036854775807 it hands out none" in found.message
    store.execute(found.action.partition(": ")[2])
    assert store.diagnose() == []
