"""Headers travel with a request, whichever way it comes, until it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from rowlease.errors import InvalidRequest
from rowlease.model import Failure, LeasedRequest, NewRequest, Outcome
from tests.contract.sessions import Clock, Session

HEADERS = '{"tenant": "acme", "trace":"ü \\"1\\""}'
#: Without characters beyond ASCII, which one T-SQL engine's string_escape changes.
PLAIN = '{"tenant": "acme"}'
#: What the routines refuse as headers.
WRONG = {
    "a list": '["a"]',
    "a string": '"a"',
    "a number in it": '{"a": 1}',
    "null in it": '{"a": null}',
    "an object in it": '{"a": {}}',
    "too large": '{"a": "' + "x" * 8_192 + '"}',
    "not JSON": "{a}",
}

pytestmark = pytest.mark.both_ways


def headers(requests: list[LeasedRequest]) -> list[str | None]:
    return [request.headers for request in requests]


def shown(store: Session, request: int) -> str | None:
    found = store.get_request(request)
    assert found
    return found.headers


def test_a_claim_returns_the_headers_as_they_were_enqueued(store: Session) -> None:
    (request,) = store.put(headers=HEADERS)
    assert shown(store, request) == HEADERS
    assert headers(store.claim()) == [HEADERS]


def test_each_request_of_a_batch_has_its_own(store: Session) -> None:
    batch = [NewRequest(kind="a", headers=one) for one in (None, HEADERS, '{"n":"2"}')]
    made = store.enqueue_many("default", batch)
    assert [shown(store, one.request_id or 0) for one in made] == [None, HEADERS, '{"n":"2"}']
    assert headers(store.claim(limit=3)) == [None, HEADERS, '{"n":"2"}']


def test_requests_with_keys_have_them_too(store: Session) -> None:
    batch = [
        NewRequest(kind="a", dedup_key="k", headers=HEADERS),
        NewRequest(kind="a", dedup_key="k", headers="{}"),
        NewRequest(kind="a", group_key="g"),
    ]
    store.enqueue_many("default", batch)
    assert headers(store.claim(limit=3)) == [HEADERS, None]


def test_an_exchange_returns_them(store: Session) -> None:
    store.put(headers=HEADERS)
    assert headers(store.exchange("one", ["default"], 1).claim.requests) == [HEADERS]


def test_a_retry_and_a_requeue_keep_them(store: Session) -> None:
    (request,) = store.put(headers=HEADERS)
    store.fail(store.claim(), [Failure("no", timedelta(0))])
    store.fail(store.claim(), [Failure("no", dead=True)])
    assert shown(store, request) == HEADERS
    assert store.requeue([request]) == [Outcome.OK]
    assert headers(store.claim()) == [HEADERS]


def test_a_request_that_leaves_the_lane_keeps_them(store: Session) -> None:
    run = store.begun("x")
    store.lay("x", run, [{"headers": HEADERS}])
    store.promote("x", run, 1)
    store.operate("reprioritise", arguments={"priority": 3}, queue="default")
    assert headers(store.claim()) == [HEADERS]


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_history_keeps_them(at_once: int, store: Session) -> None:
    made = store.put(at_once, headers=HEADERS)
    store.complete(store.claim(limit=at_once))
    (cancelled,) = store.put(headers=HEADERS)
    store.cancel([cancelled])
    assert [shown(store, one) for one in (*made, cancelled)] == [HEADERS] * (at_once + 1)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_queue_without_history_drops_them_as_it_drops_the_payload(
    at_once: int, store: Session
) -> None:
    store.configure_queue("default", keep_history=False)
    made = store.put(at_once, headers=HEADERS)
    store.complete(store.claim(limit=at_once))
    (cancelled,) = store.put(headers=HEADERS)
    store.cancel([cancelled])
    assert [shown(store, one) for one in (*made, cancelled)] == [None] * (at_once + 1)


def test_an_insert_into_the_inbox_may_have_them(store: Session) -> None:
    store.insert("inbox", kind="a", headers=HEADERS)
    store.insert("inbox", kind="b")
    assert headers(store.claim(limit=2)) == [HEADERS, None]


def test_the_firings_of_a_schedule_have_them(store: Session, clock: Clock) -> None:
    store.put_schedule("s", "0 * * * *", "tidy", headers=PLAIN)
    assert store.put_schedule("s", "0 * * * *", "tidy", headers=PLAIN)[0] == Outcome.REPEAT
    assert [schedule.headers for schedule in store.list_schedules()] == [PLAIN]
    store.fire_schedule("s")
    assert headers(store.claim()) == [PLAIN]
    assert store.put_schedule("s", "0 * * * *", "tidy")[0] == Outcome.OK
    clock.advance(seconds=1)
    store.fire_schedule("s")
    assert headers(store.claim()) == [None]


@pytest.mark.parametrize("column", ["dedup_key", "group_key"])
def test_a_load_that_moves_into_the_queue_has_them(column: str, store: Session) -> None:
    run = store.staged("x", [{"headers": HEADERS, column: "a"}, {column: "b"}])
    store.promote("x", run, 2)
    assert headers(store.claim(limit=2)) == [HEADERS, None]


@pytest.mark.parametrize("before", [False, True], ids=["alone", "behind another request"])
def test_a_load_in_the_lane_has_them(before: bool, store: Session) -> None:
    if before:
        store.put(priority=9)
    run = store.begun("x")
    rows = [{"headers": HEADERS}, {}, {"headers": HEADERS}]
    store.lay("x", run, rows)
    store.promote("x", run, 3)
    found = [shown(store, *one) for one in store.rows("lane", "request_id")]
    assert found == [HEADERS, None, HEADERS]
    assert headers(store.claim(limit=9))[before:] == [HEADERS, None, HEADERS]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize(
    "call",
    [
        lambda s, h: s.put(headers=h),
        lambda s, h: s.enqueue_many(
            "default", [NewRequest(kind="a"), NewRequest(kind="a", headers=h)]
        ),
        lambda s, h: s.put(dedup_key="k", headers=h),
        lambda s, h: s.insert("inbox", kind="a", headers=h),
        lambda s, h: s.put_schedule("s", "0 * * * *", "tidy", headers=h),
    ],
    ids=["alone", "in a batch", "with a key", "inbox", "schedule"],
)
def test_other_headers_are_refused(
    call: Callable[[Session, str], object], wrong: str, store: Session
) -> None:
    with pytest.raises(InvalidRequest, match="header"):
        call(store, wrong)
    assert store.everything() == []


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_part_with_other_headers_is_refused(wrong: str, store: Session) -> None:
    with pytest.raises(InvalidRequest, match="header"):
        store.staged("x", [{"headers": wrong}])
    assert store.everything() == []
