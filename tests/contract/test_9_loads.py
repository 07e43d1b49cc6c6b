"""Promise 9: each row of a load becomes one request, however often it is written and promoted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import InvalidRequest, QueueFull, StoreConflict
from rowlease.model import Failure, Outcome, Promoted
from tests.contract.sessions import INFINITY, Clock, Session

Rows = list[dict[str, Any]]


def numbered(count: int, **columns: Any) -> Rows:
    return [{"row_id": number, "kind": "a", **columns} for number in range(count)]


def test_a_load_is_promoted_once_however_often_it_is_asked_for(store: Session) -> None:
    run = store.staged("x", numbered(3))
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    before = store.everything()
    assert store.promote("x", run, 3) == Promoted(Outcome.REPEAT, 3, 3, 0)
    assert store.everything() == before
    assert store.rows("load", "load_id", "status", "num_rows") == [("x", "Promoted", 3)]
    assert store.rows("staging", "row_id") == []


def test_a_load_stays_promoted_when_its_requests_are_long_gone(store: Session) -> None:
    run = store.staged("x", numbered(2))
    store.promote("x", run, 2)
    store.complete(store.claim(limit=2))
    store.stage("x", run, numbered(2))
    assert store.promote("x", run, 2).outcome == Outcome.REPEAT
    assert store.rows("queue", "request_id") == []
    assert store.rows("staging", "row_id") == []


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


def test_a_row_that_was_written_twice_is_one_request(store: Session) -> None:
    run = store.staged("x", numbered(3, payload='{"n": 1}'))
    store.stage("x", run, numbered(2, payload='{"n": 1}'))
    assert store.promote("x", run, 3) == Promoted(Outcome.OK, 3, 3, 0)
    assert [depth[2:] for depth in store.depth()] == [(0, 3, 0, 0)]


def test_only_the_parts_of_a_load_that_count_are_kept(store: Session) -> None:
    rows = [(part << 30) + row for part in (0, 1, 5) for row in (0, 2**30 - 1)]
    run = store.staged("x", [{"row_id": row_id, "kind": "a"} for row_id in rows])
    other = store.staged("y", numbered(2))
    assert store.discard_staged("x", run, [5, 0]) == 2
    assert store.rows("staging", "load_id", "row_id") == [
        ("x", 0), ("x", 2**30 - 1), ("x", 5 << 30), ("x", (6 << 30) - 1), ("y", 0), ("y", 1),
    ]  # fmt: skip
    assert store.discard_staged("x", run, [5, 0]) == 0
    assert store.promote("x", run, 4).num_enqueued == 4
    assert store.discard_staged("y", other, []) == 2
    assert store.rows("staging", "row_id") == []


def test_all_staged_rows_go_even_if_one_step_cannot_delete_them(store: Session) -> None:
    run = store.staged("x", [{"row_id": n << 30, "kind": "a"} for n in range(4_100)])
    assert store.discard_staged("x", run, [0]) == 4_099
    run = store.staged("x", numbered(4_100), "two")
    assert store.promote("x", run, 4_100).num_enqueued == 4_100
    assert store.rows("staging", "row_id") == []


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
    assert len(store.rows("staging", "row_id")) == 3
    assert store.promote("x", run, 3).outcome == Outcome.OK


def test_an_empty_load_is_a_load(store: Session) -> None:
    run = store.begun("x")
    assert store.promote("x", run, 0) == Promoted(Outcome.OK, 0, 0, 0)
    assert store.promote("x", run, 0).outcome == Outcome.REPEAT


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"payload": "hunter2"}, "that are not JSON|must be a JSON object"),
        ({"payload": '{"password": "hunter2"'}, "that are not JSON|must be a JSON object"),
        ({"payload": '{"a": ["hunter2", NaN]}'}, "that are not JSON|must be a JSON object"),
        ({"payload": '{"a": "' + "hunter2" * 150_000 + '"}'}, "1048576"),
        ({"priority": -1}, "0 or more"),
        ({"kind": ""}, "kind must be a task name"),
        ({"kind": "hunter2" * 29}, "kind must be a task name"),
        ({"dedup_key": "hunter2" * 60}, "too long"),
        ({"group_key": "hunter2" * 60}, "too long"),
        pytest.param({"due_time": "infinity"}, "out of range", marks=INFINITY),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, dict) else "",
)
def test_one_bad_row_refuses_the_whole_load_and_is_not_quoted(
    store: Session, row: dict[str, Any], says: str
) -> None:
    run = store.staged(
        "x", [*numbered(2, payload='{"a": "hunter2"}'), {"row_id": 2, "kind": "a", **row}]
    )
    with pytest.raises(InvalidRequest, match=says) as refused:
        store.promote("x", run, 3)
    assert "hunter2" not in str(refused.value)
    assert store.everything() == []
    assert store.rows("load", "load_id", "status") == [("x", "Staging")]
    assert len(store.rows("staging", "row_id")) == 3


def test_a_server_does_not_quote_a_payload_either(store: Session) -> None:
    run = store.staged("x", numbered(1, payload="{hunter2"))
    with pytest.raises(InvalidRequest) as refused:
        store.promote("x", run, 1)
    assert "hunter2" not in " ".join(answered(refused.value))


def answered(error: BaseException) -> list[str]:
    """All that the server reported: message, detail, hint, context."""
    diag = getattr(error.__cause__, "diag", None)
    return [str(getattr(diag, name)) for name in dir(diag) if not name.startswith("_")]


def test_a_key_that_is_live_already_or_comes_twice_is_a_duplicate(store: Session) -> None:
    (live,) = store.put(dedup_key="live")
    run = store.staged(
        "x",
        [
            {"row_id": 0, "kind": "first", "dedup_key": "k"},
            {"row_id": 1, "kind": "second", "dedup_key": "k"},
            {"row_id": 2, "kind": "third", "dedup_key": "live"},
            {"row_id": 3, "kind": "fourth", "dedup_key": "other"},
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
    rows = [{"row_id": n, "kind": "a", "dedup_key": f"k{n}", "priority": 1} for n in range(500)]
    last = {"row_id": 500, "kind": "a", "dedup_key": "live", "priority": 1}
    run = store.staged("x", [*rows, last])
    assert store.promote("x", run, 501) == Promoted(Outcome.OK, 501, 500, 1)
    assert [depth[1:4] for depth in store.depth()] == [(1, 0, 501)]
    assert store.promote("x", run, 501) == Promoted(Outcome.REPEAT, 501, 500, 1)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_key_that_another_is_taking_is_waited_for(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    one, two = store, another()
    run = two.staged("x", [{"row_id": n, "kind": "a", "dedup_key": f"k{n}"} for n in range(3)])
    one.begin()
    one.put(dedup_key="k1")
    promoted = two.waiting(lambda: two.promote("x", run, 3))
    getattr(one, ending)()
    duplicates = 1 if ending == "commit" else 0
    assert promoted.result() == Promoted(Outcome.OK, 3, 3 - duplicates, duplicates)
    assert len(store.rows("queue", "request_id")) == 3


def test_a_load_counts_the_priorities_above_the_maximum(store: Session) -> None:
    store.configure_queue("default", max_priority=2)
    rows = [{"row_id": n, "kind": "a", "priority": p} for n, p in enumerate([0, 2, 3, None, 9])]
    run = store.staged("x", [*rows, rows[-1]])
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
    keyed = {"row_id": 9, "kind": "a", "dedup_key": "k"}
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
            {"row_id": 0, "kind": "own", "priority": 200_000, "payload": '{"n": 0}'},
            {"row_id": 1, "due_time": later},
            {"row_id": 2, "due_time": clock.now - timedelta(hours=1), "priority": 3},
        ],
    )
    assert store.promote("x", run, 3, kind="default").num_enqueued == 3
    assert store.rows(
        "queue", "request_id", "kind", "status", "priority", "due_time", "load_id", "max_attempts"
    ) == [
        (id, *rest)
        for (id,), rest in zip(
            store.rows("queue", "request_id"),
            [
                ("own", "Pending", 5, clock.now, "x", 2),
                ("default", "Scheduled", 0, later, "x", 2),
                ("default", "Pending", 3, clock.now, "x", 2),
            ],
            strict=True,
        )
    ]
    assert [(held.kind, held.payload, held.load_id) for held in store.claim(limit=9)] == [
        ("own", '{"n": 0}', "x"),
        ("default", "{}", "x"),
    ]


def test_a_row_without_a_kind_needs_one_for_the_load(store: Session) -> None:
    run = store.staged("x", [{"row_id": 0}])
    with pytest.raises(InvalidRequest, match="kind must be a task name"):
        store.promote("x", run, 1)
    assert store.promote("x", run, 1, kind="a").outcome == Outcome.OK


def test_rows_are_requests_in_the_order_of_their_ids(store: Session) -> None:
    run = store.staged("x", [{"row_id": id, "kind": str(id)} for id in (3, 1, 2)])
    store.promote("x", run, 3)
    assert [held.kind for held in store.claim(limit=3)] == ["1", "2", "3"]


def test_groups_inside_a_load_run_one_at_a_time_and_in_order(store: Session) -> None:
    store.put(dedup_key="live")
    store.claim()
    run = store.staged(
        "x",
        [
            {"row_id": 0, "kind": "0", "group_key": "g", "dedup_key": "live"},
            {"row_id": 1, "kind": "1", "group_key": "g"},
            {"row_id": 2, "kind": "2", "group_key": "g"},
            {"row_id": 3, "kind": "3", "group_key": "h"},
        ],
    )
    assert store.promote("x", run, 4).num_duplicates == 1
    taken = []
    while held := store.claim(limit=9):
        taken.append([request.kind for request in held])
        store.complete(held)
    assert taken == [["1", "3"], ["2"]]


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
                "row_id": number,
                "kind": "a",
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


@pytest.mark.parametrize("key", [None, "k"], ids=["without keys", "with keys"])
def test_rows_that_come_while_a_load_is_promoted_are_none_of_it(
    store: Session, another: Callable[[], Session], key: str | None
) -> None:
    store.configure_queue("default", capacity=100)
    rows = [{"row_id": n, "kind": "a", "dedup_key": key and f"k{n}"} for n in range(3)]
    run = store.staged("x", rows)
    one, two = store, another()
    one.begin()
    one.put()  # calls that need room in the queue wait now
    promoted = two.waiting(lambda: two.promote("x", run, 3))
    third = another()
    third.stage("x", run, [{"row_id": n, "kind": "a"} for n in range(1, 9)])
    one.commit()
    with pytest.raises(StoreConflict, match="were written while it was promoted"):
        promoted.result()
    assert len(store.rows("queue", "request_id")) == 1


@pytest.mark.parametrize("column", ["payload", "dedup_key", "priority"])
def test_a_row_that_was_written_twice_and_differs_refuses_the_load(
    store: Session, column: str
) -> None:
    values: dict[str, tuple[Any, Any]] = {
        "payload": ('{"n": 1}', '{"n": 2}'),
        "dedup_key": ("k", None),
        "priority": (0, 1),
    }
    one, other = values[column]
    run = store.staged("x", [{"row_id": 0, "kind": "a", column: one}])
    store.stage("x", run, [{"row_id": 0, "kind": "a", column: other}])
    with pytest.raises(StoreConflict, match="written twice and differ; stage it again"):
        store.promote("x", run, 1)
    assert store.everything() == []


def test_copies_that_come_while_a_load_with_equal_keys_is_promoted_are_none_of_it(
    store: Session, another: Callable[[], Session]
) -> None:
    store.configure_queue("default", capacity=100)
    run = store.staged("x", [{"row_id": n, "kind": "a", "dedup_key": "k"} for n in range(3)])
    one, two = store, another()
    one.begin()
    one.put()
    promoted = two.waiting(lambda: two.promote("x", run, 3))
    another().stage("x", run, [{"row_id": n, "kind": "a", "dedup_key": f"k{n}"} for n in range(3)])
    one.commit()
    with pytest.raises(StoreConflict, match="were written while it was promoted"):
        promoted.result()
    with pytest.raises(StoreConflict, match="written twice and differ"):
        two.promote("x", run, 3)
