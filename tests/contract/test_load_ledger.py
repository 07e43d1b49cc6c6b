"""The ledger of loads: begun before rows are staged, reported on, and swept when abandoned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, LoadLost, RoutineError
from rowlease.model import Outcome, Promoted
from tests.contract.sessions import Clock, Session

DAY = timedelta(days=1)
SWEPT = "staged rows dropped"


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"dedup_key": str(number)} for number in range(count)]


def ledger(store: Session) -> list[tuple[Any, ...]]:
    names = "load_id queue_name status num_rows num_enqueued columns num_staged reported_time"
    return store.rows("load", *names.split())


def swept(store: Session) -> int:
    """The number of rows that maintain reports as dropped."""
    return sum(done.num_rows for done in store.maintain() if done.what == SWEPT)


def test_a_load_begins_empty_whatever_a_dead_run_has_staged(store: Session) -> None:
    dead = store.begun("x", "dead", "a, b")
    store.lay("x", dead, numbered(3))
    other = store.staged("y", numbered(1))
    store.report_load("x", dead, 3)
    run = store.begun("x", "one", "a, c")
    store.maintain()
    assert store.rows("lane", "run_number") == [(other,)]
    assert store.rows("load", "load_id", "columns", "num_staged") == [
        ("x", "a, c", 0),
        ("y", None, 0),
    ]
    store.lay("x", run, numbered(2))
    assert store.promote("x", run, 2) == Promoted(Outcome.OK, 2, 2, 0)


def test_a_promoted_load_that_begins_again_answers_with_its_counts(store: Session) -> None:
    run = store.begun("x", "one", "a")
    store.lay("x", run, numbered(2))
    store.promote("x", run, 2)
    before = ledger(store)
    repeat = Promoted(Outcome.REPEAT, 2, 2, 0)
    assert store.begin_load("x", "default", "one", "a") == repeat
    assert store.begin_load("x", "default", "two", "a") == repeat
    assert store.begin_load("x", "default", "two") == repeat
    assert ledger(store) == before
    assert store.promote("x", run, 2) == repeat


def test_a_promoted_load_does_not_begin_again_with_other_columns(store: Session) -> None:
    run = store.begun("x", "one", "payload string, priority int")
    store.promote("x", run, 0)
    before = ledger(store)
    says = (
        'load "x" was enqueued from other columns: payload string, priority int, not payload'
        " string; use another load id"
    )
    with pytest.raises(InvalidRequest, match=says):
        store.begin_load("x", "default", "two", "payload string")
    assert ledger(store) == before


@pytest.mark.parametrize(
    ("load_id", "run_by"), [("", "one"), ("x" * 101, "one"), ("x", ""), ("x", "o" * 201)]
)
def test_a_load_and_its_run_have_names(store: Session, load_id: str, run_by: str) -> None:
    with pytest.raises(
        RoutineError, match="1 to 100 characters and no blank at its end, and the name"
    ):
        store.begin_load(load_id, "default", run_by)
    assert ledger(store) == []


def test_a_load_begins_for_a_queue_that_exists_and_keeps_it(store: Session) -> None:
    store.configure_queue("other")
    with pytest.raises(InvalidRequest, match='queue "nowhere" does not exist'):
        store.begin_load("x", "nowhere", "one")
    assert ledger(store) == []
    store.begin_load("x", "default", "one")
    with pytest.raises(InvalidRequest, match='belongs to queue "default", not to "other"'):
        store.begin_load("x", "other", "two")
    assert store.rows("load", "load_id", "queue_name") == [("x", "default")]


def test_who_begins_a_load_that_is_being_promoted_waits_for_the_answer(
    store: Session, another: Callable[[], Session]
) -> None:
    run = store.staged("x", numbered(3))
    one, two = store, another()
    one.begin()
    one.promote("x", run, 3)
    second = two.waiting(lambda: two.begin_load("x", "default", "two"))
    one.commit()
    assert second.result() == Promoted(Outcome.REPEAT, 3, 3, 0)


def test_reports_add_up_and_give_a_rate(store: Session, clock: Clock) -> None:
    run = store.begun("x")
    assert store.rows("load", "num_staged", "rows_per_second") == [(0, None)]
    clock.advance(timedelta(seconds=2))
    store.report_load("x", run, 600)
    clock.advance(timedelta(seconds=2))
    store.report_load("x", run, 400)
    assert store.rows("load", "num_staged", "rows_per_second") == [(1000, 250.0)]


def test_a_report_on_a_promoted_load_changes_nothing(store: Session, clock: Clock) -> None:
    run = store.begun("x")
    store.promote("x", run, 0)
    before = ledger(store)
    clock.advance(timedelta(seconds=2))
    store.report_load("x", run, 600)
    assert ledger(store) == before


def test_a_report_is_not_negative(store: Session) -> None:
    run = store.begun("x")
    with pytest.raises(RoutineError, match="must be 0 or more"):
        store.report_load("x", run, -1)


def test_a_load_without_a_report_for_a_day_is_dropped(store: Session, clock: Clock) -> None:
    run = store.staged("x", numbered(3))
    clock.advance(DAY)
    store.report_load("x", run, 3)
    clock.advance(DAY)
    assert swept(store) == 0
    assert len(store.rows("lane", "kind")) == 3
    clock.advance(timedelta(seconds=1))
    assert swept(store) == 3
    assert store.rows("lane", "kind") == ledger(store) == []
    with pytest.raises(LoadLost, match=r'load "x" does not exist: .* for a day; begin it'):
        store.promote("x", run, 3)
    store.configure_queue("other")  # its id is free, for any queue
    assert store.promote("x", store.begun("x", "two", "other"), 0).outcome == Outcome.OK


def test_a_load_that_never_staged_a_row_is_forgotten_too(store: Session, clock: Clock) -> None:
    store.begun("x")
    clock.advance(DAY + timedelta(seconds=1))
    assert swept(store) == 0
    assert ledger(store) == []


def test_a_sweep_passes_over_a_load_that_is_being_promoted(
    store: Session, another: Callable[[], Session], clock: Clock
) -> None:
    run = store.staged("x", numbered(2))
    clock.advance(DAY * 2)
    one, two = store, another()
    one.begin()
    one.promote("x", run, 2)
    assert swept(two) == 0
    one.commit()
    assert len(store.rows("queue", "request_id")) == 2
    assert ledger(store)[0][2] == "Promoted"
