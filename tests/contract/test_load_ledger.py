"""The ledger of loads: begun before rows are staged, reported on, and swept when nobody is left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, RoutineError
from rowlease.model import Maintained, Outcome, Promoted
from tests.contract import sessions
from tests.contract.sessions import Clock, Session

module_database, dsn = sessions.module_database, sessions.emptied_database

DAY = timedelta(days=1)
SWEPT = "staged rows dropped"


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"row_id": number, "kind": "a"} for number in range(count)]


def ledger(store: Session) -> list[tuple[Any, ...]]:
    names = "load_id queue_name status num_rows num_enqueued columns num_staged reported_time"
    return store.rows("load", *names.split())


def swept(store: Session) -> int:
    """What maintain says it has dropped."""
    return sum(done.num_rows for done in store.maintain() if done.what == SWEPT)


def test_a_load_begins_empty_whatever_a_dead_run_has_staged(store: Session) -> None:
    store.begin_load("x", "default", "a, b")
    store.stage("x", numbered(3))
    store.stage("y", numbered(1))
    store.report_load("x", 3)
    assert store.begin_load("x", "default", "a, c") is None
    assert store.rows("staging", "load_id", "row_id") == [("y", 0)]
    assert store.rows("load", "load_id", "columns", "num_staged") == [("x", "a, c", 0)]
    store.stage("x", numbered(2))
    assert store.promote("x", "default", 2) == Promoted(Outcome.OK, 2, 2, 0)


def test_a_promoted_load_that_begins_again_answers_with_its_counts(store: Session) -> None:
    store.begin_load("x", "default", "a")
    store.stage("x", numbered(2))
    store.promote("x", "default", 2)
    before = ledger(store)
    assert store.begin_load("x", "default", "a") == Promoted(Outcome.REPEAT, 2, 2, 0)
    assert store.begin_load("x", "default") == Promoted(Outcome.REPEAT, 2, 2, 0)
    assert ledger(store) == before


def test_a_promoted_load_does_not_begin_again_with_other_columns(store: Session) -> None:
    store.begin_load("x", "default", "payload string, priority int")
    store.promote("x", "default", 0)
    before = ledger(store)
    says = (
        'load "x" was enqueued from other columns: payload string, priority int, not payload'
        " string; take another load id"
    )
    with pytest.raises(InvalidRequest, match=says):
        store.begin_load("x", "default", "payload string")
    assert ledger(store) == before


@pytest.mark.parametrize("load_id", ["", "x" * 101])
def test_a_load_id_has_1_to_100_characters(store: Session, load_id: str) -> None:
    with pytest.raises(RoutineError, match="1 to 100 characters"):
        store.begin_load(load_id, "default")
    with pytest.raises(RoutineError, match="1 to 100 characters"):
        store.report_load(load_id, 1)
    assert ledger(store) == []


def test_a_load_begins_for_a_queue_that_exists_and_keeps_it(store: Session) -> None:
    store.configure_queue("other")
    with pytest.raises(InvalidRequest, match='queue "nowhere" does not exist'):
        store.begin_load("x", "nowhere")
    assert ledger(store) == []
    store.begin_load("x", "default")
    with pytest.raises(InvalidRequest, match='belongs to queue "default", not to "other"'):
        store.begin_load("x", "other")
    with pytest.raises(InvalidRequest, match='belongs to queue "default", not to "other"'):
        store.promote("x", "other", 0)


def test_who_begins_a_load_that_is_being_promoted_waits_for_the_answer(
    store: Session, another: Callable[[], Session]
) -> None:
    store.stage("x", numbered(3))
    one, two = store, another()
    one.begin()
    one.promote("x", "default", 3)
    second = two.waiting(lambda: two.begin_load("x", "default"))
    one.commit()
    assert second.result() == Promoted(Outcome.REPEAT, 3, 3, 0)


def test_reports_add_up_and_give_a_rate(store: Session, clock: Clock) -> None:
    store.begin_load("x", "default")
    assert store.rows("load", "num_staged", "rows_per_second") == [(0, None)]
    clock.advance(timedelta(seconds=2))
    store.report_load("x", 600)
    clock.advance(timedelta(seconds=2))
    store.report_load("x", 400)
    assert store.rows("load", "num_staged", "rows_per_second") == [(1000, 250.0)]


def test_a_report_on_a_promoted_load_changes_nothing(store: Session, clock: Clock) -> None:
    store.promote("x", "default", 0)
    before = ledger(store)
    clock.advance(timedelta(seconds=2))
    store.report_load("x", 600)
    assert ledger(store) == before


def test_a_report_is_not_negative(store: Session) -> None:
    with pytest.raises(RoutineError, match="not negative"):
        store.report_load("x", -1)


def test_a_load_is_abandoned_when_nobody_has_reported_on_it_for_a_day(
    store: Session, clock: Clock
) -> None:
    store.begin_load("x", "default")
    store.stage("x", numbered(3))
    clock.advance(DAY)
    store.report_load("x", 3)
    clock.advance(DAY)
    assert swept(store) == 0
    assert len(store.rows("staging", "row_id")) == 3
    clock.advance(timedelta(seconds=1))
    assert swept(store) == 3
    assert store.rows("staging", "row_id") == []
    assert ledger(store) == []  # its id is free, for any queue
    assert store.promote("x", "default", 0).outcome == Outcome.OK


def test_a_load_that_never_staged_a_row_is_forgotten_too(store: Session, clock: Clock) -> None:
    store.begin_load("x", "default")
    clock.advance(DAY + timedelta(seconds=1))
    assert swept(store) == 0
    assert ledger(store) == []


def test_rows_that_nobody_announced_are_dropped_a_day_after_they_are_seen(
    store: Session, clock: Clock
) -> None:
    store.stage("x", numbered(2))
    clock.advance(DAY * 3)
    assert swept(store) == 0
    assert store.rows("load", "load_id", "queue_name", "status") == [("x", None, "Staging")]
    clock.advance(DAY + timedelta(seconds=1))
    assert swept(store) == 2
    assert ledger(store) == []


def test_rows_that_were_seen_can_be_promoted_into_any_queue(store: Session) -> None:
    store.configure_queue("other")
    store.stage("x", numbered(2))
    store.maintain()
    assert store.promote("x", "other", 2) == Promoted(Outcome.OK, 2, 2, 0)
    assert store.rows("load", "queue_name", "status") == [("other", "Promoted")]


def test_rows_that_come_after_the_promotion_are_dropped(store: Session) -> None:
    store.promote("x", "default", 0)
    store.stage("x", numbered(2))
    store.stage("y", numbered(1))
    assert swept(store) == 2
    assert store.rows("staging", "load_id") == [("y",)]
    assert store.rows("load", "load_id", "status") == [("x", "Promoted"), ("y", "Staging")]


def test_a_sweep_takes_bounded_steps(store: Session) -> None:
    store.promote("x", "default", 0)
    store.stage("x", numbered(25))
    assert Maintained(SWEPT, 10) in store.maintain(1)
    assert len(store.rows("staging", "row_id")) == 15


@pytest.mark.only_on(
    "postgresql", why="entries of a promoted load stay in its index for a snapshot"
)
def test_a_sweep_that_took_long_is_not_made_again_at_once(store: Session) -> None:
    store.promote("x", "default", 0)
    store.stage("x", numbered(2))
    later = "set_config('rowlease.sweep_after', (clock_timestamp() + interval '{}')::text, false)"
    store.execute(f"select {later.format('1 hour')}")
    assert swept(store) == 0
    store.execute(f"select {later.format('-1 second')}")
    assert swept(store) == 2


def test_a_sweep_passes_over_a_load_that_is_being_promoted(
    store: Session, another: Callable[[], Session]
) -> None:
    store.stage("x", numbered(2))
    one, two = store, another()
    one.begin()
    one.promote("x", "default", 2)
    assert swept(two) == 0
    one.commit()
    assert len(store.rows("queue", "request_id")) == 2
