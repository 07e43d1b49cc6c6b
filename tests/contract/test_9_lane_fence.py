"""Promise 9: only rows whose transaction has ended its part are ever requests of a load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, LoadLost
from rowlease.model import Outcome
from tests.contract.lane import all_claimed, checks, kinds, named, promoted, waiting
from tests.contract.sessions import Session

pytestmark = pytest.mark.both_ways

#: Of tests in which two transactions write a part at once, or one ends it early.
AT_COMMIT = pytest.mark.only_on("postgresql", why="it alone counts a part as it is committed")

Another = Callable[[], Session]


def foreign(store: Session, run: int, *names: str, part: int = 0, priority: int = 0) -> None:
    """Insert rows that end no part, as a program may that writes a part in two steps."""
    rows = [
        {"run_number": run, "part": part, "priority": priority, "kind": name, "payload": "{}"}
        for name in names
    ]
    with suppress(LoadLost):  # an engine may refuse them at once
        store.insert_many("lane", rows)


@pytest.mark.parametrize("limit", [{}, {"max_in_flight": 100}], ids=["plain", "limited"])
def test_rows_that_are_added_to_a_promoted_load_never_run(
    store: Session, limit: dict[str, Any]
) -> None:
    store.configure_queue("default", capacity=10, **limit)
    run = promoted(store, "x", named("a", "b"), named("c"))
    store.pause("default")
    for priority in (0, 7):
        foreign(store, run, *["late"] * 20, priority=priority)
    foreign(store, run, "late", part=65536)
    foreign(store, run, "late", part=9)
    assert [len(store.rows(name, "kind")) for name in ("requests", "ready")] == [3, 0]
    assert waiting(store) == 3
    checks(store)
    store.resume("default")
    assert kinds(store.claim()) == ["a"]
    store.maintain()
    assert all_claimed(store, 9) == ["b", "c"]
    assert [(depth.pending, depth.processing) for depth in store.depth()] == [(0, 3)]
    checks(store)
    (batch,) = store.list_batches()
    assert (batch.num_requests, batch.num_live) == (3, 3)


def test_rows_of_no_part_are_swept_while_their_load_waits_in_a_paused_queue(
    store: Session,
) -> None:
    run = promoted(store, "x", [*named("a"), *named("b", priority=2)], named("c"))
    store.pause("default")
    store.put(kind="between")  # takes an id
    for part, priority in ((0, 0), (0, 2), (0, 1), (65536, 0), (7, 0)):
        foreign(store, run, "late", part=part, priority=priority)
    staging = store.begun("y")
    store.lay("y", staging, named("d"))
    foreign(store, staging, "early", part=0)
    for _ in range(2):
        store.maintain()
    assert sorted(kind for (kind,) in store.rows("lane", "kind")) == ["a", "b", "c", "d"]
    store.resume("default")
    assert sorted(all_claimed(store)) == ["a", "b", "between", "c"]
    assert store.promote("y", staging, 1).outcome == Outcome.OK
    checks(store)


@AT_COMMIT
def test_rows_of_a_part_that_has_not_ended_are_swept_before_the_promotion(store: Session) -> None:
    run = store.begun("x")
    store.lay("x", run, named("a"))
    foreign(store, run, "early", part=1)
    store.maintain()
    assert store.rows("lane", "kind") == [("a",)]
    assert store.promote("x", run, 1).outcome == Outcome.OK
    checks(store)


@AT_COMMIT
@pytest.mark.parametrize("limit", [{}, {"max_in_flight": 100}], ids=["plain", "limited"])
@pytest.mark.parametrize("first", ["claim", "sweep"])
def test_a_row_of_no_part_among_those_of_a_part_does_not_count(
    store: Session, another: Another, limit: dict[str, Any], first: str
) -> None:
    """Two transactions take ids in turns, so its id is between those of the part."""
    store.configure_queue("default", **limit)
    other = another()
    run = store.begun("x")
    store.begin()
    other.begin()
    store.lay("x", run, named("a"))
    foreign(other, run, "between")
    foreign(store, run, "b")
    store.commit()
    assert store.promote("x", run, 2).outcome == Outcome.OK
    other.commit()
    checks(store)
    if first == "sweep":
        store.maintain()
        assert sorted(kind for (kind,) in store.rows("lane", "kind")) == ["a", "b"]
    assert all_claimed(store, 9) == ["a", "b"]
    checks(store)


@AT_COMMIT
@pytest.mark.parametrize("limit", [{}, {"max_in_flight": 100}], ids=["plain", "limited"])
@pytest.mark.parametrize("first", ["claim", "sweep"])
def test_rows_that_follow_the_end_of_their_part_do_not_count(
    store: Session, limit: dict[str, Any], first: str
) -> None:
    """`set constraints all immediate` ends the part in the middle of its transaction."""
    store.configure_queue("default", **limit)
    run = store.begun("x")
    store.begin()
    store.lay("x", run, named("a"))
    store.end_part()
    foreign(store, run, "b", "c")
    store.commit()
    with pytest.raises(InvalidRequest, match=r"\(1; expected: 3\)"):
        store.promote("x", run, 3)
    assert store.promote("x", run, 1).outcome == Outcome.OK
    if first == "sweep":
        store.maintain()
        assert store.rows("lane", "kind") == [("a",)]
    assert all_claimed(store, 9) == ["a"]
    checks(store)


@AT_COMMIT
@pytest.mark.parametrize("limit", [{}, {"max_in_flight": 100}], ids=["plain", "limited"])
def test_a_transaction_may_write_parts_of_several_loads(
    store: Session, limit: dict[str, Any]
) -> None:
    """Their rows have one `writer`, and their ids are taken in turns."""
    store.configure_queue("default", **limit)
    x, y = store.begun("x"), store.begun("y")
    store.begin()
    for part, name in enumerate("ab"):
        store.lay("x", x, named(name), part)
        store.lay("y", y, named(f"y{name}"), part)
    foreign(store, x, "no part", part=7)
    for part, name in enumerate("AB"):  # each part has rows among those of all others
        foreign(store, x, name, part=part)
        foreign(store, y, f"y{name}", part=part)
    store.commit()
    assert store.promote("x", x, 4).outcome == Outcome.OK
    store.maintain()
    assert store.promote("y", y, 4).outcome == Outcome.OK
    assert waiting(store) == 8
    checks(store)
    assert all_claimed(store, 9) == ["a", "A", "b", "B", "ya", "yA", "yb", "yB"]
    store.maintain()
    assert store.rows("lane", "kind") == []
    checks(store)


def test_a_part_that_is_committed_in_two_steps_is_refused(store: Session) -> None:
    run = store.begun("x")
    foreign(store, run, "a", "b")
    store.lay("x", run, named("c"))
    with pytest.raises(InvalidRequest, match=r"\([12]; expected: 3\)"):
        store.promote("x", run, 3)
    assert store.everything() == []
    checks(store)
