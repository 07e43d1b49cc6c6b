"""Promises 3 and 9: the rows of a load in the lane are requests like others once it is promoted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from rowlease.errors import InvalidRequest, LoadLost, QueueFull, RowleaseError, StoreConflict
from rowlease.model import Failure, Outcome, Promoted, Request
from tests.contract.lane import all_claimed, checks, kinds, named, promoted, waiting
from tests.contract.sessions import Clock, Measured, PostgresSession, Session

pytestmark = pytest.mark.both_ways

#: Of tests that look at the moment of a commit.
AT_COMMIT = pytest.mark.only_on("postgresql", why="it alone counts a part as it is committed")
#: Of tests that count pages and index entries.
PAGES = pytest.mark.only_on("postgresql", why="its own statistics of pages say what a call costs")

Another = Callable[[], Session]


def without_autovacuum(store: Session) -> None:
    """After autovacuum, a call plans again, and reads up to 100 pages at each end of an index."""
    tables = (
        "select oid::regclass::text from pg_class"
        " where relnamespace = 'rowlease'::regnamespace and relkind = 'r'"
    )
    for (table,) in store.execute(tables):
        store.execute(f"alter table {table} set (autovacuum_enabled = false)")


# -- promise 9 -------------------------------------------------------------------------------------


def test_no_row_is_a_request_before_its_load_is_promoted(store: Session) -> None:
    run = store.begun("x")
    store.lay("x", run, named("a", "b", "c"))
    assert store.everything() == []
    assert store.claim(limit=9) == []
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    assert waiting(store) == 3
    assert len(store.rows("requests", "request_id")) == 3
    assert kinds(store.claim(limit=9)) == ["a", "b", "c"]
    checks(store)


def test_a_load_is_promoted_once_however_often_it_is_asked_for(store: Session) -> None:
    run = promoted(store, "x", named("a", "b", "c"))
    before = store.everything()
    assert store.promote("x", run, 3) == Promoted(Outcome.REPEAT, 3, 3, 0)
    assert store.begin_load("x", "default", "two") == Promoted(Outcome.REPEAT, 3, 3, 0)
    assert store.everything() == before


def test_a_request_keeps_its_id_and_its_load_to_the_history(store: Session, clock: Clock) -> None:
    promoted(store, "x", [{"kind": "a", "payload": '{"n": 1}', "priority": 3}])
    names = "request_id kind status priority requested_time due_time load_id max_attempts payload"
    (before,) = store.rows("requests", *names.split()[:-1])
    assert before[1:] == ("a", "Pending", 3, clock.now, clock.now, "x", 5)
    (held,) = store.claim()
    assert (held.request_id, held.load_id, held.payload, held.priority, held.num_attempts) == (
        before[0], "x", '{"n": 1}', 3, 1,
    )  # fmt: skip
    assert store.complete([held]) == ["ok"]
    row = store.row(held.request_id)
    assert [str(row[name]) for name in ("status", "load_id", "payload", "due_time")] == [
        "Complete", "x", "{'n': 1}", str(clock.now),
    ]  # fmt: skip
    assert store.depth() == []
    checks(store)


@pytest.mark.parametrize("expected", [2, 4, 0])
def test_a_load_with_rows_missing_or_too_many_is_refused_whole(
    store: Session, expected: int
) -> None:
    run = store.begun("x")
    store.lay("x", run, named("a", "b", "c"))
    with pytest.raises(InvalidRequest, match=rf"\(3; expected: {expected}\)"):
        store.promote("x", run, expected)
    assert store.everything() == []
    assert store.promote("x", run, 3).outcome == Outcome.OK


def test_only_the_parts_of_a_load_that_count_are_promoted(store: Session) -> None:
    run = store.begun("x")
    other = store.begun("y")
    for part in (0, 1, 65536):
        store.lay("x", run, named(f"{part}a", f"{part}b", priority=part % 2), part)
    store.lay("y", other, named("y"), 1)
    with pytest.raises(InvalidRequest, match=r"\(6; expected: 4\)"):
        store.promote("x", run, 4)
    assert store.promote("x", run, 4, parts=[0, 65536, 7]).num_enqueued == 4
    assert store.promote("y", other, 1, parts=[1]).num_enqueued == 1
    assert waiting(store) == 5
    assert all_claimed(store) == ["0a", "0b", "65536a", "65536b", "y"]
    checks(store)
    store.maintain()
    assert store.rows("lane", "kind") == []


@AT_COMMIT
def test_a_part_that_ends_after_the_promotion_does_not_count(
    store: Session, another: Another
) -> None:
    late = another()
    run = store.begun("x")
    store.lay("x", run, named("a"))
    late.begin()
    late.lay("x", run, named("late"), 7)
    store.promote("x", run, 1)
    says = f"run {run} of a load is over: the load is promoted, or a later run has taken it over"
    with pytest.raises(LoadLost, match=says), cast("PostgresSession", late).connection() as sql:
        sql.execute("commit")
    assert all_claimed(store) == ["a"]
    checks(store)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_promotion_waits_for_a_part_that_is_ending(
    store: Session, another: Another, ending: str
) -> None:
    driver = another()
    run = store.begun("x")
    store.lay("x", run, named("a"))
    store.begin()
    store.lay("x", run, named("b"), 1)
    store.end_part()
    expected = 2 if ending == "commit" else 1
    answer = driver.waiting(lambda: driver.promote("x", run, expected))
    getattr(store, ending)()
    assert answer.result() == Promoted(Outcome.OK, expected, expected, 0)
    assert len(all_claimed(store)) == expected
    checks(store)


def test_a_part_that_ends_while_its_load_is_promoted_waits_and_does_not_count(
    store: Session, another: Another
) -> None:
    driver = another()
    run = store.begun("x")
    store.lay("x", run, named("a"))
    driver.begin()
    driver.promote("x", run, 1)
    late = store.waiting(lambda: store.lay("x", run, named("late"), 1))
    driver.commit()
    with pytest.raises(LoadLost, match="is over"):
        late.result()
    assert all_claimed(driver) == ["a"]
    checks(driver)


@AT_COMMIT
def test_a_part_that_ends_while_its_run_is_superseded_does_not_count(
    store: Session, another: Another
) -> None:
    driver = another()
    run = store.begun("x", "one")
    driver.begin()
    driver.begun("x", "two")
    late = store.waiting(lambda: store.lay("x", run, named("late"), 1))
    driver.commit()
    with pytest.raises(LoadLost, match="is over"):
        late.result()


@pytest.mark.only_on("sqlserver", why="elsewhere a part meets its load as it is committed")
def test_a_promotion_does_not_wait_for_ever_for_rows_that_are_being_written(
    store: Session, another: Another
) -> None:
    late = another()
    run = store.begun("x")
    store.lay("x", run, named("a"))
    late.begin()
    late.lay("x", run, named("late"), 7)
    with pytest.raises(StoreConflict, match=f"the lock rowlease:write:{run} was not granted"):
        store.within(timedelta(seconds=9)).promote("x", run, 1)  # waits a third of that
    late.rollback()
    assert store.promote("x", run, 1).outcome == Outcome.OK
    assert all_claimed(store) == ["a"]
    checks(store)


def test_of_two_drivers_the_later_alone_counts(store: Session) -> None:
    one = store.begun("x", "one")
    store.lay("x", one, named("a0", "a1"))
    two = store.begun("x", "two")
    with pytest.raises(LoadLost, match="is over"):
        store.lay("x", one, named("a2", "a3"), 1)
    store.lay("x", two, named("b0", "b1"))
    with pytest.raises(LoadLost):
        store.promote("x", one, 4)
    assert store.promote("x", two, 2) == Promoted(Outcome.OK, 2, 2, 0)
    assert all_claimed(store) == ["b0", "b1"]
    checks(store)


def test_what_another_attempt_writes_of_a_part_is_dropped(store: Session) -> None:
    run = store.begun("x")
    first = [*named("a", "b"), *named("c", priority=2)]
    other = [*named("A", "B"), *named("C", priority=1)]
    store.lay("x", run, named("d"), 4)
    store.lay("x", run, first, 5)
    for copy in (first, other):
        store.lay("x", run, copy, 5)
        assert len(store.rows("lane", "kind")) == 4
    assert store.promote("x", run, 4).outcome == Outcome.OK
    assert all_claimed(store) == ["c", "d", "a", "b"]
    checks(store)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_of_two_attempts_that_end_at_once_one_counts(
    store: Session, another: Another, ending: str
) -> None:
    copy = another()
    run = store.begun("x")
    store.begin()
    store.lay("x", run, [*named("b", priority=2), *named("a")])
    store.end_part()
    rows = [*named("C", priority=3), *named("B", priority=2)]
    done = copy.waiting(lambda: copy.lay("x", run, rows))
    getattr(store, ending)()
    done.result()
    assert store.promote("x", run, 2).outcome == Outcome.OK
    assert all_claimed(store) == (["b", "a"] if ending == "commit" else ["C", "B"])
    checks(store)


def test_what_another_attempt_writes_behind_a_savepoint_is_dropped(store: Session) -> None:
    run = store.begun("x")
    store.lay("x", run, named("a"))
    store.begin()
    store.lay("x", run, named("b"))  # a transaction inside a transaction is a savepoint
    store.commit()
    assert store.rows("lane", "kind") == [("a",)]
    assert store.promote("x", run, 1).outcome == Outcome.OK
    assert all_claimed(store) == ["a"]


@pytest.mark.parametrize(("marks", "counted"), [("false", 0), ("n = 3", 3), ("true", 3)])
@AT_COMMIT
def test_any_program_may_append_a_part_and_marks_a_row_of_it(
    store: Session, marks: str, counted: int
) -> None:
    run = store.begun("x")
    store.execute(
        "insert into rowlease.load_inbox (run_number, part, ends_part, priority, kind, payload)"
        f" select %s, 0, {marks}, 0, 'a', '{{}}' from generate_series(1, 3) as g(n)",
        (run,),
    )
    assert store.promote("x", run, counted).num_enqueued == counted
    assert len(all_claimed(store)) == counted
    checks(store)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("priority", -1, "priority is (below 0 or above 255|-1); it must be 0 or more"),
        ("kind", "", "kind must be a task name"),
        ("kind", "x" * 201, "too long"),
        (
            "payload",
            f'"{"x" * 2**20}"',
            "payload (has over|is 1048578 bytes;.*) 1048576",
        ),
    ],
)
def test_a_row_that_no_queue_accepts_is_refused_with_its_part(
    store: Session, column: str, value: Any, says: str
) -> None:
    run = store.begun("x")
    with pytest.raises(InvalidRequest, match=says):
        store.lay("x", run, [*named("a"), {column: value}])
    assert store.rows("lane", "kind") == []


def test_a_load_counts_the_priorities_that_are_lowered(store: Session) -> None:
    store.configure_queue("default", max_priority=2)
    run = store.begun("x")
    store.lay("x", run, [*named("a"), *named("b", "c", priority=3)])
    done = Promoted(Outcome.OK, 3, 3, 0, 2 + 10)
    assert store.promote("x", run, 3, num_clamped=10) == done
    assert store.promote("x", run, 3) == done._replace(outcome=Outcome.REPEAT)
    assert store.begin_load("x", "default", "two") == done._replace(outcome=Outcome.REPEAT)


def test_a_load_that_was_never_begun_has_no_parts(store: Session) -> None:
    with pytest.raises(LoadLost, match="run 7 of a load is over"):
        store.lay("x", 7, named("a"))
    assert store.rows("lane", "request_id") == []


def test_a_load_that_does_not_fit_into_the_queue_is_refused_whole(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    run = store.begun("x")
    store.lay("x", run, named("a", "b", "c"))
    with pytest.raises(QueueFull, match="3 more cannot fit"):
        store.promote("x", run, 3)
    assert store.everything() == []
    store.configure_queue("default", capacity=3)
    assert store.promote("x", run, 3).outcome == Outcome.OK
    with pytest.raises(QueueFull):
        store.put()
    store.complete(store.claim())
    assert len(store.put()) == 1


# -- promise 3 -------------------------------------------------------------------------------------


def test_a_load_stands_in_line_from_its_promotion(store: Session, clock: Clock) -> None:
    run = store.begun("x")
    store.lay("x", run, named("x1", "x2"))
    store.put(kind="before")
    clock.advance(seconds=1)
    store.promote("x", run, 2)
    clock.advance(seconds=1)
    store.put(kind="after")
    store.put(kind="urgent", priority=1)
    promoted(store, "y", named("y1", "y2"), named("y3"))
    assert all_claimed(store) == ["urgent", "before", "x1", "x2", "after", "y1", "y2", "y3"]


def test_an_urgent_request_takes_no_later_one_with_it(store: Session, clock: Clock) -> None:
    promoted(store, "x", named("x1", "x2"))
    clock.advance(seconds=1)
    store.put(kind="later")
    store.put(kind="urgent", priority=1)
    assert kinds(store.claim(limit=3)) == ["urgent", "x1", "x2"]
    assert store.depth() == store.counted()


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_priority_goes_first_then_the_load_then_the_row(
    store: Session, clock: Clock, limit: int
) -> None:
    promoted(
        store,
        "x",
        [*named("x0a", "x0b"), *named("x2a", priority=2)],
        [*named("x0c"), *named("x2b", priority=2)],
    )
    clock.advance(seconds=1)
    promoted(store, "y", [*named("y2", priority=2), *named("y1", priority=1), *named("y0")])
    clock.advance(seconds=1)
    store.put(kind="s2", priority=2)
    store.put(kind="s0")
    assert all_claimed(store, limit) == [
        "x2a", "x2b", "y2", "s2", "y1", "x0a", "x0b", "x0c", "y0", "s0",
    ]  # fmt: skip


def test_a_priority_above_the_maximum_is_lowered_to_it(store: Session) -> None:
    store.configure_queue("default", max_priority=1)
    promoted(store, "x", [*named("a"), *named("b", priority=200), *named("c", priority=1)])
    assert [depth[1:4] for depth in store.depth()] == [(1, 0, 2), (0, 0, 1)]
    assert kinds(store.claim(limit=9)) == ["b", "c", "a"]
    checks(store)


def test_a_lowered_maximum_lowers_what_waits_in_the_lane(store: Session) -> None:
    promoted(store, "x", [*named("a"), *named("b", priority=5), *named("c", priority=2)])
    store.configure_queue("default", max_priority=2)
    assert [depth[1:4] for depth in store.depth()] == [(2, 0, 2), (0, 0, 1)]
    assert sorted(kinds(store.claim(limit=2))) == ["b", "c"]
    assert kinds(store.claim(limit=2)) == ["a"]
    checks(store)


def test_what_another_has_locked_is_stepped_over(store: Session, another: Another) -> None:
    one, two = another(), another()
    promoted(store, "x", [*named("a", "b", priority=1), *named("c", "d")])
    store.put(kind="e")
    one.begin()
    assert kinds(one.claim(limit=2)) == ["a", "b"]
    assert kinds(two.claim("two", limit=9)) == ["c", "d", "e"]
    one.rollback()
    assert kinds(two.claim("two", limit=9)) == ["a", "b"]
    checks(store)


def test_what_another_has_locked_before_the_lane_is_stepped_over(
    store: Session, another: Another
) -> None:
    if store.with_floors:
        return  # until it ends, such a claim keeps more than it takes
    one, two = another(), another()
    store.put(kind="before")
    promoted(store, "x", named("a", "b"))
    one.begin()
    assert kinds(one.claim()) == ["before"]
    assert kinds(two.claim("two", limit=9)) == ["a", "b"]
    one.rollback()
    assert kinds(two.claim("two", limit=9)) == ["before"]


def test_a_request_that_comes_back_keeps_its_place(store: Session, clock: Clock) -> None:
    promoted(store, "x", named("a", "b", "c", "d"))
    held = store.claim(limit=2)
    clock.advance(seconds=1)
    store.put(kind="later")
    store.abandon(held[:1])
    store.fail(held[1:], [Failure("x", after=timedelta(seconds=5))])
    assert kinds(store.claim(limit=1)) == ["a"]
    clock.advance(seconds=6)
    assert all_claimed(store) == ["c", "d", "later", "b"]
    checks(store)


@pytest.mark.parametrize(("slots", "first"), [(1, "01"), (4, "01"), (2, "")])
def test_what_is_past_the_slots_has_not_started(store: Session, slots: int, first: str) -> None:
    promoted(store, "x", [*named("a", priority=1), *named("b", "c", "d")])
    for place, kind in enumerate(first):
        store.put(kind=kind, priority=3 - place)
    store.claim(limit=len(first) + 3, slots=slots)
    found = store.rows("queue", "kind", "started_time", status="Processing")
    started = {kind: time is not None for kind, time in found}
    assert started == {kind: place < slots for place, kind in enumerate(first + "abc")}


def test_a_short_claim_asks_when_something_is_due(store: Session) -> None:
    promoted(store, "x", named("a", "b"))
    claim = store.dequeue("one", ["default"], 1)
    assert (len(claim.requests), claim.more) == (1, True)
    claim = store.dequeue("one", ["default"], 5)
    assert (len(claim.requests), claim.more) == (1, False)


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "weighted", "policy_weights": [1, 0, 5]},
        {"policy": "aging"},
        {"max_in_flight": 3},
    ],
    ids=lambda settings: next(iter(settings)) + str(next(iter(settings.values()))),
)
def test_every_kind_of_queue_takes_from_the_lane(store: Session, settings: dict[str, Any]) -> None:
    store.configure_queue("default", max_priority=2, **settings)
    rows = [{"kind": f"{n:02}", "priority": n % 3} for n in range(30)]
    promoted(store, "x", rows[:20], rows[20:])
    store.put(5, kind="single", priority=1)
    found, left = list[str](), 35
    while held := store.claim(limit=4):
        found += kinds(held)
        assert len(held) == min(settings.get("max_in_flight", 4), left)
        left -= len(held)
        store.complete(held)
    assert sorted(found) == [*(f"{n:02}" for n in range(30)), *["single"] * 5]
    checks(store)


@pytest.mark.parametrize("limit", [1, 7, 100])
@pytest.mark.parametrize(
    "settings",
    [{}, {"policy": "weighted"}, {"policy": "aging"}, {"max_in_flight": 50}],
    ids=lambda settings: str(next(iter(settings.values()), "strict")),
)
def test_inside_a_load_the_part_goes_before_the_id(
    store: Session, settings: dict[str, Any], limit: int
) -> None:
    """Tasks write at once, and take their ids at once; the frame's order is that of parts."""
    store.configure_queue("default", **settings)
    parts = [named(*(f"{part}{n:02}" for n in range(10))) for part in range(5)]
    run = store.begun("x")
    for part in reversed(range(5)):
        store.lay("x", run, parts[part], part)
    store.promote("x", run, 50)
    assert all_claimed(store, limit) == [row["kind"] for part in parts for row in part]
    checks(store)


def test_urgent_requests_of_groups_leave_a_load_in_order(store: Session) -> None:
    """They make claims take the careful way, and take places in them."""
    parts = [named(*(f"{part}{n:02}" for n in range(7))) for part in range(7)]
    run = store.begun("x")
    for part in reversed(range(7)):
        store.lay("x", run, parts[part], part)
    store.promote("x", run, 49)
    found = list[str]()
    for turn in range(60):
        if turn % 2 == 0:
            store.put(kind="urgent", group_key=f"{turn}", priority=5)
        held = store.claim(limit=3)
        assert turn % 2 or held[0].kind == "urgent"
        found += kinds(held)
        store.complete(held[:1])
    assert [kind for kind in found if kind != "urgent"] == [
        row["kind"] for part in parts for row in part
    ]
    checks(store)


def test_groups_beside_a_load_keep_their_order(store: Session, clock: Clock) -> None:
    store.put(kind="g1", group_key="g")
    store.put(kind="g2", group_key="g")
    clock.advance(seconds=1)
    promoted(store, "x", named("a", "b", "c", "d"))
    first = store.claim(limit=2)
    assert kinds(first) == ["g1", "a"]
    store.complete(first)
    assert all_claimed(store) == ["g2", "b", "c", "d"]
    checks(store)


def test_no_more_come_into_the_queue_than_claims_may_take(store: Session) -> None:
    """The careful way moves what it may need; it must not empty the lane call by call."""
    store.put(group_key="g", kind="busy", priority=1)
    store.claim()
    promoted(store, "x", [{"kind": f"{n:03}"} for n in range(200)])
    for _ in range(15):
        store.put(kind="urgent", priority=1)
        assert len(store.claim(limit=5)) == 5
    assert len(store.rows("queue", "request_id", status="Pending")) <= 5
    checks(store)


def test_the_priorities_of_a_weighted_queue_share_what_is_in_the_lane(
    store: Session,
) -> None:
    store.configure_queue("default", policy="weighted", policy_weights=[1, 1, 1])
    promoted(store, "x", [{"kind": str(n % 3), "priority": n % 3} for n in range(60)])
    assert set(kinds(store.claim(limit=12))) == {"0", "1", "2"}


def test_in_an_aging_queue_a_load_has_waited_since_its_promotion(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", policy="aging", policy_aging_seconds=10)
    store.put(kind="first")
    clock.advance(seconds=15)
    store.put(kind="urgent", priority=1)
    clock.advance(seconds=15)
    promoted(store, "x", named("load"), named("urgent load", priority=1))
    clock.advance(seconds=5)
    store.put(kind="last", priority=1)
    assert all_claimed(store, 9) == ["first", "urgent", "urgent load", "last", "load"]


def test_what_a_claim_left_to_another_is_not_hidden_by_its_floor(
    store: Session, another: Another, clock: Clock
) -> None:
    one, two = another(), another()
    promoted(store, "x", named("a", "b"))
    clock.advance(seconds=0.5)
    one.begin()
    one.claim(limit=2)
    floor = two.dequeue("two", ["default"], 5, floor="{}").floor
    assert floor is not None
    one.rollback()
    assert kinds(two.dequeue("two", ["default"], 5, floor=floor).requests) == ["a", "b"]


def test_what_an_operator_makes_due_is_not_hidden_by_a_floor(
    store: Session, another: Another, clock: Clock
) -> None:
    one, two = another(), another()
    promoted(store, "x", named("a"))
    ((request_id,),) = store.rows("requests", "request_id")
    clock.advance(seconds=1)
    store.put(kind="later")
    clock.advance(seconds=1)
    one.begin()
    one.claim()
    claim = two.dequeue("two", ["default"], 5, floor="{}")
    assert kinds(claim.requests) == ["later"]
    assert claim.floor is not None
    one.rollback()
    store.operate("reschedule", arguments={"delay_ms": 0}, ids=[request_id])
    assert kinds(two.dequeue("two", ["default"], 5, floor=claim.floor).requests) == ["a"]


# -- one queue for all who look --------------------------------------------------------------------


def test_cancelling_reaches_the_lane(store: Session, another: Another) -> None:
    promoted(store, "x", [*named("a", "b"), *named("c", priority=4)], named("d"))
    store.put(kind="e")
    ids = dict(store.rows("requests", "kind", "request_id"))
    held = store.claim()
    assert kinds(held) == ["c"]
    assert store.cancel([ids["d"], ids["e"], ids["a"], ids["c"], 2**40]) == [
        "ok", "ok", "ok", "cancel_requested", "not_found",
    ]  # fmt: skip
    assert store.cancel([ids["a"]]) == ["not_found"]
    assert all_claimed(store) == ["b"]
    statuses = {row[0]: row[1] for row in store.rows("requests", "kind", "status")}
    assert [statuses[kind] for kind in "abcde"] == [
        "Cancelled", "Processing", "Processing", "Cancelled", "Cancelled",
    ]  # fmt: skip
    checks(store)


def test_cancelling_waits_for_a_claim_of_the_same_request(store: Session, another: Another) -> None:
    operator = another()
    promoted(store, "x", named("a", "b"))
    ids = dict(store.rows("requests", "kind", "request_id"))
    store.begin()
    store.claim()
    answer = operator.waiting(lambda: operator.cancel([ids["a"]]))
    store.commit()
    assert answer.result() == ["cancel_requested"]


def test_a_row_that_is_not_promoted_is_not_found(store: Session) -> None:
    run = store.begun("x")
    store.lay("x", run, named("a"))
    ((request_id,),) = store.rows("lane", "request_id")
    assert store.cancel([request_id]) == ["not_found"]
    assert store.explain(request_id).reason == "unknown"
    assert store.promote("x", run, 1).outcome == Outcome.OK


def test_purging_reaches_the_lane(store: Session, clock: Clock) -> None:
    promoted(store, "x", named("a", "b", "a"))
    clock.advance(seconds=10)
    promoted(store, "y", named("a", "b"))
    store.configure_queue("other")
    promoted(store, "z", named("a"), queue="other")
    store.put(kind="a")

    def purge(**filters: Any) -> int:
        count = store.purge(["Pending"], dry_run=True, **filters)
        assert store.purge(["Pending"], **filters) == count
        return count

    assert purge(kind="a", min_age=timedelta(seconds=5)) == 2
    assert purge(kind="a", limit=1) == 1
    assert purge(kind="a") == 1
    assert store.purge(["Failed", "Scheduled"]) == 0
    assert sorted(all_claimed(store)) == ["b", "b"]
    assert [depth.queue_name for depth in store.depth() if depth.pending] == ["other"]
    checks(store)


def test_a_pause_holds_the_lane_too(store: Session) -> None:
    promoted(store, "x", named("a"))
    store.pause("default")
    assert store.claim() == []
    store.resume("default")
    assert kinds(store.claim()) == ["a"]


def test_the_counts_are_corrected_by_the_rows_of_the_lane(store: Session) -> None:
    promoted(store, "x", named("a", "b", "c"))
    run = store.begun("y")
    store.lay("y", run, named("d"))
    checks(store)
    store.execute(f"delete from rowlease.{store.spelt('queue_depth')}")
    assert [(wrong.counter, wrong.was, wrong.actual) for wrong in store.recount()] == [
        ("pending", 0, 3),
        ("batch_requests", 0, 3),
        ("batch_live", 0, 3),
    ]
    store.remove("lane", kind="b")
    store.maintain()
    assert waiting(store) == 2
    assert [(wrong.counter, wrong.was, wrong.actual) for wrong in store.recount()] == [
        ("batch_live", 3, 2)
    ]
    checks(store)


def test_a_queue_with_requests_in_the_lane_is_not_deleted(store: Session) -> None:
    store.configure_queue("other")
    promoted(store, "x", named("a"), queue="other")
    with pytest.raises(RowleaseError, match="it has requests"):
        store.delete_queue("other")


def test_the_age_of_a_queue_is_that_of_its_lane(store: Session, clock: Clock) -> None:
    promoted(store, "x", named("a"))
    clock.advance(seconds=3)
    store.put()
    (found,) = store.list_queues()
    assert found.oldest == timedelta(seconds=3)
    store.claim()
    (found,) = store.list_queues()
    assert found.oldest == timedelta(0)


def test_a_request_in_the_lane_is_explained(store: Session, clock: Clock) -> None:
    store.put(2)
    clock.advance(seconds=1)
    promoted(store, "x", [*named("a", "b"), *named("u", priority=1)], named("c"))
    clock.advance(seconds=1)
    store.put(kind="last")
    store.worker_heartbeat(
        "w", host="h", pid=1, version="1", queues=["default"], slots=1, busy=0, consumer_priority=0
    )
    ids = dict(store.rows("requests", "kind", "request_id"))
    assert store.explain(ids["u"]).reason == "next"
    for kind, ahead in (("b", 4), ("c", 5), ("last", 6)):
        explained = store.explain(ids[kind])
        assert explained.reason == "behind"
        assert explained.message.startswith(f"{ahead} requests are ahead of it")


@pytest.mark.parametrize("kind", ["urgent", "first", "last", "single"])
@PAGES
def test_to_explain_a_request_reads_little_of_the_lane(
    store: Session, clock: Clock, kind: str
) -> None:
    """It counts 10,000 at most, and only what goes first."""
    without_autovacuum(store)
    ahead = {"urgent": "nothing is", "first": "2 requests are"}
    store.execute("set synchronous_commit = off")
    rows = [{"kind": "a", "priority": 1}] * 30_000
    first = [*named("urgent", priority=2), *named("first", priority=1)]
    promoted(store, "x", named("before", priority=1), [*first, *rows], rows)
    promoted(store, "y", named("last", priority=1))
    clock.advance(seconds=1)
    store.put(kind="single")
    store.worker_heartbeat(
        "w", host="h", pid=1, version="1", queues=["default"], slots=1, busy=0, consumer_priority=0
    )
    ((request_id,),) = store.rows("requests", "request_id", kind=kind)
    for _ in range(2):  # the second plan is generic
        cost = store.measured(lambda: store.explain(request_id))
        assert cost.value.message.startswith(ahead.get(kind, "10000 or more requests are"))
        assert cost.full_scans.keys().isdisjoint({"lane", "queue"})
        assert sum(n for name, n in cost.pages.items() if name.startswith("lane")) <= (
            300 if kind in ahead else 1_000
        ), cost.pages


@PAGES
@pytest.mark.parametrize("status", ["Pending", "Complete"])
def test_to_read_a_request_by_its_id_costs_nothing_of_the_lane(store: Session, status: str) -> None:
    """Beside a load of 200 parts, each id that a caller waits for would cost hundreds of pages."""
    without_autovacuum(store)
    ids = store.put(3)
    if status == "Complete":
        store.complete(store.claim(limit=3))
    promoted(store, "x", *[named("a")] * 200)
    calls: dict[str, Callable[[], object]] = {
        "get_request": lambda: store.get_request(ids[0]),
        "find_requests": lambda: store.find_requests(ids=ids),
        "requeue": lambda: store.operate("requeue", ids=ids, dry_run=True),
        "explain": lambda: store.explain(ids[0]),
    }
    if status == "Pending":
        del calls["explain"]  # it counts the parts that go first
    for name, call in calls.items():
        for _ in range(2):  # the second plan is generic
            cost = store.measured(call)
        lane = {key: n for key, n in cost.pages.items() if key.startswith("lane")}
        assert sum(lane.values()) <= 4, (name, lane)  # the planner may read the ends of an index


# -- housekeeping ----------------------------------------------------------------------------------


def test_a_load_that_is_used_up_is_out_of_the_way(store: Session, another: Another) -> None:
    promoted(store, "x", named("a", "b"))
    one = another()
    one.begin()
    one.claim(limit=2)
    store.maintain()
    assert store.rows("load", "in_lane") == [(True,)]
    one.rollback()
    assert kinds(store.claim(limit=2)) == ["a", "b"]
    another().maintain()  # a slow sweep makes later ones of its session rare
    assert store.rows("load", "in_lane") == [(False,)]
    assert store.rows("lane_part", "part") == []


def test_rows_of_no_load_are_dropped(store: Session, clock: Clock) -> None:
    superseded = store.begun("x", "one")
    store.lay("x", superseded, named("a", "b"))
    current = store.begun("x", "two")
    store.lay("x", current, named("c"))
    abandoned = store.begun("y")
    store.lay("y", abandoned, named("d"))
    ready = promoted(store, "z", named("e"))
    swept = {done.what: done.num_rows for done in store.maintain()}
    assert swept["staged rows dropped"] == 2
    assert [kind for (kind,) in store.rows("lane", "kind")] == ["c", "d", "e"]
    clock.advance(timedelta(days=1, seconds=1))
    store.report_load("x", current, 1)
    store.maintain()
    assert [kind for (kind,) in store.rows("lane", "kind")] == ["c", "e"]
    assert set(store.rows("lane_part", "run_number")) == {(current,), (ready,)}
    assert store.promote("x", current, 1).outcome == Outcome.OK
    checks(store)


def test_a_sweep_of_the_lane_takes_bounded_steps(store: Session) -> None:
    superseded = store.begun("x", "one")
    store.lay("x", superseded, [{"kind": "a"}] * 250)
    store.lay("x", store.begun("x", "two"), [{"kind": "b"}])
    (dropped,) = (each.num_rows for each in store.maintain(1) if each.what == "staged rows dropped")
    assert 10 <= dropped <= 100
    assert len(store.rows("lane", "kind")) == 251 - dropped
    store.maintain()
    assert store.rows("lane", "kind") == [("b",)]


# -- cost ------------------------------------------------------------------------------------------


@PAGES
def test_a_claim_reads_the_lane_only_while_a_load_is_in_it(store: Session) -> None:
    without_autovacuum(store)
    if store.with_floors:
        return
    store.put(3)
    run = store.begun("x")
    store.lay("x", run, named("a"))
    cost = store.measured(store.claim)
    assert {name for name in cost.pages if name.startswith("lane")} == set()
    store.promote("x", run, 1)
    cost = store.measured(store.claim)
    assert "lane_part_pkey" in cost.pages


@pytest.mark.parametrize("limit", [{}, {"max_in_flight": 100}], ids=["plain", "limited"])
def test_a_promote_that_commits_after_the_maximum_was_lowered_loses_no_request(
    limit: dict[str, Any], store: Session, another: Another
) -> None:
    store.configure_queue("default", **limit)
    run = store.begun("x")
    store.lay("x", run, named("a", "b", priority=9))
    store.begin()
    store.promote("x", run, 2)
    other = another()
    other.configure_queue("default", max_priority=3)
    store.commit()
    assert all_claimed(other) == ["a", "b"]
    checks(other)


@PAGES
def test_displays_read_little_of_the_lane(store: Session) -> None:
    without_autovacuum(store)
    store.execute("set synchronous_commit = off")
    rows = [{"kind": "a", "priority": place % 3} for place in range(10_000)]
    promoted(store, "x", *(rows for _ in range(5)))
    store.execute("analyze rowlease.lane, rowlease.lane_part, rowlease.load")
    for _ in range(2):  # the second plan is generic
        cost = store.measured(store.list_queues)
        assert cost.full_scans.keys().isdisjoint({"lane", "queue"})
        lane = {name: pages for name, pages in cost.pages.items() if name.startswith("lane")}
        assert sum(lane.values()) <= 100, lane


@PAGES
def test_the_newest_requests_are_read_in_the_order_of_an_index(store: Session) -> None:
    without_autovacuum(store)
    store.execute("set synchronous_commit = off")
    store.put(5_000)
    promoted(store, "x", named("a"))
    store.execute("analyze rowlease.queue, rowlease.lane, rowlease.lane_part, rowlease.load")
    newest = "select request_id from rowlease.requests order by request_id desc limit 10"
    cost = store.measured(lambda: store.execute(newest))
    assert len(cost.value) == 10
    assert "queue" not in cost.full_scans
    assert cost.pages["queue"] + cost.pages["queue_pkey"] <= 50, cost.pages


@PAGES
def test_a_request_is_found_by_its_id_without_a_search_in_every_part(
    store: Session,
) -> None:
    without_autovacuum(store)
    (alone,) = store.put()
    promoted(store, "x", *[named(*"a" * 200) for _ in range(100)])
    (later,) = store.put()
    ((first, last),) = store.execute("select min(request_id), max(request_id) from rowlease.lane")
    for request in (alone, first, last, later):
        store.get_request(request)  # the first call of a session also plans
        for call in (
            lambda r=request: store.get_request(r),
            lambda r=request: store.find_requests(ids=[r]).requests[0],
        ):
            cost: Measured[Request | None] = store.measured(call)
            assert cost.value is not None
            assert cost.value.request_id == request
            # A search in each of the 100 parts reads two pages or more of each.
            assert cost.pages.get("lane", 0) + cost.pages.get("lane_pkey", 0) <= 50, cost.pages
