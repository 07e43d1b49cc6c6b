"""Promise 9: each row of a load with keys, groups or due times becomes one request, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, LoadLost, QueueFull
from rowlease.model import Failure, Outcome, Promoted
from tests.contract.lane import checks
from tests.contract.sessions import INFINITY, Clock, Session

Rows = list[dict[str, Any]]


def numbered(count: int, **columns: Any) -> Rows:
    """Rows of which each has a group of its own."""
    return [{"group_key": str(number), **columns} for number in range(count)]


def test_a_load_is_promoted_once_however_often_it_is_asked_for(store: Session) -> None:
    run = store.staged("x", numbered(3))
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    before = store.everything()
    assert store.promote("x", run, 3) == Promoted(Outcome.REPEAT, 3, 3, 0)
    assert store.everything() == before
    assert store.rows("load", "load_id", "status", "num_rows") == [("x", "Promoted", 3)]
    store.maintain()
    assert store.rows("lane", "kind") == store.rows("lane_part", "part") == []
    assert store.everything() == before


def test_a_load_stays_promoted_when_its_requests_are_long_gone(store: Session) -> None:
    run = store.staged("x", numbered(2))
    store.promote("x", run, 2)
    store.complete(store.claim(limit=2))
    with pytest.raises(LoadLost, match="the load is promoted"):
        store.lay("x", run, numbered(2), 1)
    assert store.promote("x", run, 2).outcome == Outcome.REPEAT
    assert store.rows("queue", "request_id") == []


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_drivers_that_promote_one_load_at_once_promote_it_once(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    run = store.staged("x", numbered(3))
    one, two = store, another()
    one.begin()
    assert one.promote("x", run, 3).outcome == Outcome.OK
    second = two.waiting(lambda: two.promote("x", run, 3))
    getattr(one, ending)()
    assert second.result() == Promoted(
        Outcome.REPEAT if ending == "commit" else Outcome.OK, 3, 3, 0
    )
    assert len(store.rows("queue", "request_id")) == 3


def test_equal_rows_are_two_requests(store: Session) -> None:
    run = store.staged("x", numbered(2, payload='{"n": 1}', priority=1))
    assert store.promote("x", run, 2).num_enqueued == 2


@pytest.mark.parametrize("expected", [2, 4, 0])
def test_a_load_with_rows_missing_or_too_many_is_refused_whole(
    store: Session, expected: int
) -> None:
    run = store.staged("x", numbered(3))
    with pytest.raises(InvalidRequest, match=rf"\(3; expected: {expected}\)"):
        store.promote("x", run, expected)
    assert store.everything() == []
    assert store.promote("x", run, 3).outcome == Outcome.OK


def test_an_empty_load_is_a_load(store: Session) -> None:
    run = store.begun("x")
    assert store.promote("x", run, 0) == Promoted(Outcome.OK, 0, 0, 0)
    assert store.promote("x", run, 0).outcome == Outcome.REPEAT


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"payload": "{"}, "is not JSON|must be a JSON object"),
        ({"payload": '{"a": [1, NaN]}'}, "is not JSON|must be a JSON object"),
        ({"payload": '{"a": "' + "hunter2" * 150_000 + '"}'}, "1048576"),
        ({"priority": -1}, "0 or more"),
        ({"kind": ""}, "kind must be a task name"),
        ({"kind": "hunter2" * 29}, "kind must be a task name|too long"),
        ({"dedup_key": "hunter2" * 60}, "too long"),
        ({"group_key": "hunter2" * 60}, "too long"),
        ({"dedup_key": "hunter2 "}, "ends in a blank"),
        ({"group_key": "hunter2 "}, "ends in a blank"),
        pytest.param({"due_time": "infinity"}, "out of range", marks=INFINITY),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, dict) else "",
)
def test_one_bad_row_refuses_its_part_and_is_not_quoted(
    store: Session, row: dict[str, Any], says: str
) -> None:
    run = store.begun("x")
    rows = [*numbered(2, payload='{"a": "hunter2"}'), {"group_key": "2", **row}]
    with pytest.raises(InvalidRequest, match=says) as refused:
        store.lay("x", run, rows)
    assert "hunter2" not in str(refused.value)
    assert store.rows("lane", "kind") == store.everything() == []


def test_a_key_that_is_live_already_or_comes_twice_is_a_duplicate(store: Session) -> None:
    (live,) = store.put(dedup_key="live")
    run = store.staged(
        "x",
        [
            {"kind": "first", "dedup_key": "k"},
            {"kind": "second", "dedup_key": "k"},
            {"kind": "third", "dedup_key": "live"},
            {"kind": "fourth", "dedup_key": "other"},
        ],
    )
    assert store.promote("x", run, 4) == Promoted(Outcome.OK, 4, 2, 2)
    assert store.promote("x", run, 4) == Promoted(Outcome.REPEAT, 4, 2, 2)
    assert store.rows("queue", "request_id", "kind")[0] == (live, "a")
    assert [kind for (kind,) in store.rows("queue", "kind")] == ["a", "first", "fourth"]
    assert [depth[2:] for depth in store.depth()] == [(0, 3, 0, 0)]


def test_one_live_key_at_the_end_of_a_load_leaves_the_others_and_their_counts(
    store: Session,
) -> None:
    store.put(dedup_key="live", priority=1)
    rows = [{"dedup_key": f"k{n}", "priority": 1} for n in range(500)]
    last = {"dedup_key": "live", "priority": 1}
    run = store.staged("x", [*rows, last])
    assert store.promote("x", run, 501) == Promoted(Outcome.OK, 501, 500, 1)
    assert [depth[1:4] for depth in store.depth()] == [(1, 0, 501)]
    assert store.promote("x", run, 501) == Promoted(Outcome.REPEAT, 501, 500, 1)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_key_that_another_is_taking_is_waited_for(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    one, two = store, another()
    run = two.staged("x", [{"dedup_key": f"k{n}"} for n in range(3)])
    one.begin()
    one.put(dedup_key="k1")
    promoted = two.waiting(lambda: two.promote("x", run, 3))
    getattr(one, ending)()
    duplicates = 1 if ending == "commit" else 0
    assert promoted.result() == Promoted(Outcome.OK, 3, 3 - duplicates, duplicates)
    assert len(store.rows("queue", "request_id")) == 3


def test_a_load_counts_the_priorities_above_the_maximum(store: Session) -> None:
    store.configure_queue("default", max_priority=2)
    rows = [{"group_key": str(n), "priority": p} for n, p in enumerate([0, 2, 3, 0, 9])]
    run = store.staged("x", rows)
    done = Promoted(Outcome.OK, 5, 5, 0, 2 + 10)
    assert store.promote("x", run, 5, num_clamped=10) == done
    assert store.begin_load("x", "default", "two") == done._replace(outcome=Outcome.REPEAT)
    assert store.rows("loads", "num_clamped") == [(2 + 10,)]


def test_a_key_of_a_dead_letter_is_free(store: Session) -> None:
    store.put(dedup_key="k")
    store.fail(store.claim(), [Failure("x", dead=True)])
    run = store.staged("x", numbered(1, dedup_key="k"))
    assert store.promote("x", run, 1).num_duplicates == 0


def test_the_same_rows_under_another_load_id_are_other_requests_unless_they_have_keys(
    store: Session,
) -> None:
    keyed = {"dedup_key": "k"}
    for load, duplicates in (("x", 0), ("y", 1)):
        run = store.staged(load, [*numbered(2), keyed])
        assert store.promote(load, run, 3).num_duplicates == duplicates
    assert len(store.rows("queue", "request_id")) == 5


def test_rows_say_what_enqueue_says(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_priority=5, max_attempts=2)
    later = clock.now + timedelta(hours=1)
    run = store.staged(
        "x",
        [
            {"kind": "own", "priority": 200, "payload": '{"n": 0}'},
            {"kind": "b", "due_time": later},
            {"kind": "c", "due_time": clock.now - timedelta(hours=1), "priority": 3},
        ],
    )
    assert store.promote("x", run, 3).num_enqueued == 3
    assert store.rows(
        "queue", "request_id", "kind", "status", "priority", "due_time", "load_id", "max_attempts"
    ) == [
        (id, *rest)
        for (id,), rest in zip(
            store.rows("queue", "request_id"),
            [
                ("own", "Pending", 5, clock.now, "x", 2),
                ("b", "Scheduled", 0, later, "x", 2),
                ("c", "Pending", 3, clock.now, "x", 2),
            ],
            strict=True,
        )
    ]
    assert [(held.kind, held.payload, held.load_id) for held in store.claim(limit=9)] == [
        ("own", '{"n": 0}', "x"),
        ("c", "{}", "x"),
    ]


def test_a_load_is_enqueued_in_the_order_of_its_parts_and_rows(store: Session) -> None:
    """Also its rows without keys, and whichever part was written first."""
    store.put()
    run = store.begun("x")
    for part in (65536, 2 << 16, 0):
        rows = [{"kind": f"{part >> 16}{name}", "priority": int(name == "b")} for name in "abc"]
        store.lay("x", run, [*rows[:2], rows[2] | {"dedup_key": str(part)}], part)
    assert store.promote("x", run, 9) == Promoted(Outcome.OK, 9, 9, 0)
    assert (
        "".join(kind for _, kind in store.rows("queue", "request_id", "kind"))
        == "a0a0b0c1a1b1c2a2b2c"
    )
    assert [each.kind for each in store.claim(limit=4)] == ["0b", "1b", "2b", "a"]
    checks(store)


def test_only_the_parts_that_count_are_enqueued(store: Session) -> None:
    """Every attempt of a task writes a part of its own, and Spark accepts one attempt of each."""
    run = store.begun("x")
    for part in (0, 1, 65536):
        store.lay("x", run, [{"kind": f"{part}", "dedup_key": f"k{part % 2}"}], part)
    with pytest.raises(InvalidRequest, match=r"\(3; expected: 2\)"):
        store.promote("x", run, 2)
    with pytest.raises(InvalidRequest, match=r"\(2; expected: 3\)"):
        store.promote("x", run, 3, parts=[1, 65536])
    assert store.promote("x", run, 2, parts=[65536, 1, 7]).num_enqueued == 2
    assert store.rows("queue", "kind") == [("1",), ("65536",)]
    store.maintain()
    assert store.rows("lane", "kind") == []


def test_of_two_attempts_that_write_one_part_the_first_counts(store: Session) -> None:
    run = store.staged("x", numbered(2, kind="first"))
    store.lay("x", run, numbered(3, kind="second"))
    assert store.promote("x", run, 2).num_enqueued == 2
    assert store.rows("queue", "kind") == [("first",)] * 2


def test_a_load_without_keys_that_is_due_stays_in_the_lane(store: Session, clock: Clock) -> None:
    due = [None, clock.now - timedelta(days=1), clock.now]
    keys = {"dedup_key": None, "group_key": None}
    run = store.staged("x", [keys | {"due_time": each} for each in due])
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    assert store.rows("queue", "kind") == []
    assert [held.due_time for held in store.claim(limit=9)] == [clock.now] * 3


@pytest.mark.parametrize(
    "column",
    [{"dedup_key": "k"}, {"group_key": "g"}, {"due_time": datetime(2100, 1, 1, tzinfo=UTC)}],
)
def test_a_load_with_one_such_row_moves_into_the_queue(
    store: Session, column: dict[str, Any]
) -> None:
    run = store.staged("x", [{}, column, {}])
    assert store.promote("x", run, 3).num_enqueued == 3
    assert len(store.rows("queue", "kind")) == 3
    checks(store)


def test_groups_inside_a_load_run_one_at_a_time_and_in_order(store: Session) -> None:
    store.put(dedup_key="live")
    store.claim()
    run = store.staged(
        "x",
        [
            {"kind": "0", "group_key": "g", "dedup_key": "live"},
            {"kind": "1", "group_key": "g"},
            {"kind": "2", "group_key": "g"},
            {"kind": "3", "group_key": "h"},
        ],
    )
    assert store.promote("x", run, 4).num_duplicates == 1
    taken = []
    while held := store.claim(limit=9):
        taken.append([request.kind for request in held])
        store.complete(held)
    assert taken == [["1", "3"], ["2"]]


def test_a_load_with_groups_alone_runs_each_one_at_a_time(store: Session) -> None:
    run = store.staged("x", [{"kind": kind, "group_key": kind[0]} for kind in ("g1", "h1", "g2")])
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    first = store.claim(limit=9)
    assert [request.kind for request in first] == ["g1", "h1"]
    store.complete(first)
    assert [request.kind for request in store.claim(limit=9)] == ["g2"]


def test_a_load_id_belongs_to_one_queue(store: Session) -> None:
    store.configure_queue("mail")
    run = store.staged("x", numbered(1))
    with pytest.raises(InvalidRequest, match='belongs to queue "default"'):
        store.begin_load("x", "mail", "one")
    assert store.promote("x", run, 1).outcome == Outcome.OK
    with pytest.raises(InvalidRequest, match='belongs to queue "default"'):
        store.begin_load("x", "mail", "one")


def test_a_load_that_does_not_fit_into_the_queue_is_refused_whole(store: Session) -> None:
    store.configure_queue("default", capacity=2)
    run = store.staged("x", numbered(3))
    with pytest.raises(QueueFull, match="3 more cannot fit"):
        store.promote("x", run, 3)
    assert store.everything() == []
    store.configure_queue("default", capacity=3)
    assert store.promote("x", run, 3).outcome == Outcome.OK


def test_no_row_can_be_claimed_before_the_whole_load_can(
    store: Session, another: Callable[[], Session]
) -> None:
    driver = another()
    run = driver.staged("x", numbered(5))
    assert store.claim(limit=9) == []
    driver.begin()
    driver.promote("x", run, 5)
    assert store.claim(limit=9) == []
    assert store.depth() == []
    driver.commit()
    assert len(store.claim(limit=9)) == 5


def test_a_connection_cut_while_it_promotes_leaves_the_load_as_it_was(
    store: Session, another: Callable[[], Session]
) -> None:
    driver = another()
    run = driver.staged("x", numbered(5))
    driver.begin()
    driver.promote("x", run, 5)
    driver.kill()
    assert store.everything() == []
    assert store.promote("x", run, 5) == Promoted(Outcome.OK, 5, 5, 0)


@pytest.mark.parametrize("groups", [None, 1000, 200_000], ids=lambda g: f"{g} groups")
def test_a_large_load_is_promoted_on_tables_that_were_never_analysed(
    store: Session, groups: int | None
) -> None:
    count = 200_000
    run = store.staged(
        "x",
        (
            {
                "payload": '{"n": 1}',
                "dedup_key": str(number // 2) if number < count // 10 else None,
                "group_key": None if groups is None else str(number % groups),
            }
            for number in range(count)
        ),
    )
    duplicates = count // 20
    assert store.promote("x", run, count) == Promoted(
        Outcome.OK, count, count - duplicates, duplicates
    )
    assert [depth[2:] for depth in store.depth()] == [(0, count - duplicates, 0, 0)]
    assert len(store.claim(limit=10)) == 10
