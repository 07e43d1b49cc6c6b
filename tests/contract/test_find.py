"""Requests are found by a filter, newest first, and a call reads only so many of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rowlease.errors import RoutineError
from rowlease.model import Failure, Found, NewRequest
from tests.contract.sessions import Clock, Session

DEAD = Failure("TimeoutError: no answer\nfrom the API", dead=True)


def ids(found: Found) -> list[int]:
    return [request.request_id for request in found.requests]


def all_pages(store: Session, **filters: Any) -> list[int]:
    """What all calls find together, each going on where the one before ended."""
    result: list[int] = []
    after = None
    for _ in range(100):
        found = store.find_requests(after=after, **filters)
        result += ids(found)
        after = found.after
        if after is None:
            return result
    raise AssertionError("it never ends")


def one_of_each(store: Session) -> dict[str, int]:
    """A request in each status."""
    made = dict(zip(("Complete", "Failed", "Cancelled", "Processing"), store.put(4), strict=True))
    held = store.claim(limit=4)
    store.complete(held[:1], ['{"n": 1}'])
    store.fail(held[1:2], [DEAD])
    store.cancel([made["Cancelled"]])
    store.fail(held[2:3], [DEAD])
    (made["Pending"],) = store.put()
    (made["Scheduled"],) = store.put(delay=timedelta(hours=1))
    return made


def test_every_request_is_found_as_get_shows_it_the_newest_first(store: Session) -> None:
    made = one_of_each(store)
    found = store.find_requests()
    assert ids(found) == sorted(made.values(), reverse=True)
    assert found.after is None
    assert found.requests == [store.get_request(request) for request in ids(found)]


@pytest.mark.parametrize(
    "statuses",
    [
        ["Failed"],
        ["Processing"],
        ["Complete"],
        ["Cancelled"],
        ["Pending"],
        ["Scheduled"],
        ["Failed", "Complete"],
        ["Processing", "Failed"],
        ["Pending", "Scheduled", "Cancelled"],
        [],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("queue", [None, "default", "other"])
def test_statuses_choose(statuses: list[str], queue: str | None, store: Session) -> None:
    store.configure_queue("other")
    made = one_of_each(store)
    wanted = [made[status] for status in statuses] if queue != "other" else []
    assert sorted(all_pages(store, status=statuses, queue=queue)) == sorted(wanted)
    assert sorted(all_pages(store, status=statuses, queue=queue, look=1)) == sorted(wanted)


def test_filters_choose(store: Session) -> None:
    store.configure_queue("other")
    (first,) = store.put(kind="a", dedup_key="key", group_key="group")
    (second,) = store.put(kind="b")
    (third,) = store.enqueue_many("other", [NewRequest(kind="a", payload="{}")])
    assert ids(store.find_requests(queue="other")) == [third.request_id]
    assert ids(store.find_requests(kind="a")) == [third.request_id, first]
    assert ids(store.find_requests(kind="a", queue="default")) == [first]
    assert ids(store.find_requests(kind="b")) == [second]
    assert ids(store.find_requests(dedup_key="key")) == [first]
    assert ids(store.find_requests(group_key="group")) == [first]
    (load,) = store.put(priority=3)
    assert ids(store.find_requests(min_priority=1)) == [load]
    assert ids(store.find_requests(min_priority=4)) == []
    assert ids(store.find_requests(max_priority=2, kind="a")) == [third.request_id, first]
    for none in ({"kind": "c"}, {"queue": "none"}, {"dedup_key": "k"}, {"group_key": "g"}):
        assert store.find_requests(**none) == Found([], None)  # type: ignore[arg-type]


@pytest.mark.parametrize("look", [1, 100])
def test_requests_are_found_by_their_ids(look: int, store: Session) -> None:
    made = one_of_each(store)
    for status, request in made.items():
        assert ids(store.find_requests(ids=[request], look=look)) == [request]
        assert ids(store.find_requests(ids=[request], status=status, look=look)) == [request]
        assert ids(store.find_requests(ids=[request], kind="none", look=look)) == []
    every = sorted(made.values(), reverse=True)
    assert ids(store.find_requests(ids=every + every, look=look)) == every
    page = store.find_requests(ids=every, limit=2, look=look)
    assert (ids(page), page.after) == (every[:2], every[1])
    assert ids(store.find_requests(ids=every, after=every[1], look=look)) == every[2:]
    assert store.find_requests(ids=[every[0] + 1], look=look) == Found([], None)
    assert store.find_requests(ids=[]) == Found([], None)


def test_a_worker_is_found_by_its_id_its_host_or_its_process(store: Session) -> None:
    store.put(4)
    (first,) = store.claim("host1:1:ab")
    (second,) = store.claim("host1:2:cd")
    store.claim("host11:1:ab")
    (done,) = store.claim("host1:1:ab")
    store.complete([done])
    for worker, found in {
        "host1:1:ab": [done, first],
        "host1:1": [done, first],
        "host1": [done, second, first],
        "host": [],
        "host1:": [],
        "host_": [],
    }.items():
        assert ids(store.find_requests(worker=worker)) == [one.request_id for one in found]
    running = store.find_requests(worker="host1", status=["Processing"])
    assert ids(running) == [second.request_id, first.request_id]


def test_running_requests_are_read_in_one_step_beside_many_that_wait(store: Session) -> None:
    """The oldest requests run, and those that wait are newer: a step by ids would read these."""
    store.configure_queue("other")
    store.put(3, "other")
    store.put(50)
    running = [one.request_id for one in store.dequeue("one", ["other"], 3).requests]
    store.put(50)
    for queue in (None, "other"):
        found = store.find_requests(queue=queue, status=["Processing"], look=1)
        assert (ids(found), found.after) == (running[::-1], None)
    store.dequeue("one", ["default"], 20)
    found = store.find_requests(queue="other", status=["Processing"], look=1)
    assert (ids(found), found.after) == (running[::-1], None)  # the leases of others do not count
    found = store.find_requests(status=["Processing"], look=1)
    assert found.after is not None  # so many leases are not read in one step


def test_requests_of_a_load_are_found(store: Session) -> None:
    store.put()
    run = store.staged("one", [{"group_key": "g"}] * 2)
    store.promote("one", run, 2)
    run = store.staged("two", [{"group_key": "g"}])
    store.promote("two", run, 1)
    loaded = [row[0] for row in store.rows("requests", "request_id", load_id="one")]
    assert ids(store.find_requests(load_id="one")) == loaded[::-1]
    assert ids(store.find_requests(load_id="three")) == []


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        ('{"state": ["Failed"]}', 'a filter has no key "state"; the keys are queue, status, kind'),
        ('{"status": "Failed"}', "status must be an array of Scheduled|a value of the filter"),
        ('{"status": ["failed"]}', "status must be an array of Scheduled"),
        ('{"ids": ["x"]}', "a value of the filter is wrong"),
        ('{"min_age_ms": "1h"}', "a value of the filter is wrong"),
        ('{"since": "soon"}', "a value of the filter is wrong"),
        (f'{{"ids": {list(range(10_001))}}}', "a filter may have at most 10,000 ids"),
    ],
    ids=lambda value: value[:40],
)
def test_a_wrong_filter_is_an_error(filter_: str, message: str, store: Session) -> None:
    with pytest.raises(RoutineError, match=message):
        store._call("find_requests", p_filter=filter_)


def test_part_of_an_error_is_found_in_any_case(store: Session) -> None:
    store.put(2)
    one, two = store.claim(limit=2)
    store.fail([one, two], [DEAD, Failure("100% [a_b]")])
    for part in ("Timeout", "timeouterror: NO", "from the api"):
        assert ids(store.find_requests(error=part)) == [one.request_id]
    for part in ("100% [", "A_B"):
        assert ids(store.find_requests(error=part)) == [two.request_id]
    for part in ("%", "_"):  # no patterns
        assert ids(store.find_requests(error=part)) == [two.request_id]
    assert ids(store.find_requests(error="no answer", status=["Pending"])) == []


def test_ages_and_times_choose(store: Session, clock: Clock) -> None:
    made = []
    for _ in range(3):
        made += store.put()
        clock.advance(minutes=10)
    old, middle, new = made
    minutes = [timedelta(minutes=number) for number in (5, 15, 20, 25)]
    assert ids(store.find_requests(min_age=minutes[1])) == [middle, old]
    assert ids(store.find_requests(min_age=minutes[2])) == [middle, old]
    assert ids(store.find_requests(max_age=minutes[1])) == [new]
    assert ids(store.find_requests(max_age=minutes[2])) == [new, middle]
    assert ids(store.find_requests(min_age=minutes[1], max_age=minutes[3])) == [middle]
    at = clock.now - minutes[2]
    assert ids(store.find_requests(since=at)) == [new, middle]
    assert ids(store.find_requests(until=at)) == [middle, old]
    assert ids(store.find_requests(since=at, until=at)) == [middle]
    assert ids(store.find_requests(since=at, max_age=minutes[0])) == []


def test_pages_go_on_where_the_last_one_ended(store: Session) -> None:
    made = store.put(5)
    store.complete(store.claim(limit=2))
    page = store.find_requests(limit=2)
    assert (ids(page), page.after) == (made[:2:-1], made[3])
    page = store.find_requests(limit=2, after=page.after)
    assert ids(page) == [made[2], made[1]]
    page = store.find_requests(limit=2, after=page.after)
    assert (ids(page), page.after) == ([made[0]], None)


@pytest.mark.parametrize("look", [1, 2, 3, 7])
def test_no_request_is_missed_however_few_are_looked_at(look: int, store: Session) -> None:
    made = []
    for _ in range(4):
        made += list(one_of_each(store).values())
    assert all_pages(store, look=look) == sorted(made, reverse=True)
    assert all_pages(store, look=look, limit=3) == sorted(made, reverse=True)
    failed = [request for (request,) in store.rows("queue", "request_id", status="Failed")]
    assert all_pages(store, look=look, status=["Failed"]) == failed[::-1]
    assert all_pages(store, look=look, status=["Failed"], queue="default") == failed[::-1]


@pytest.mark.parametrize("status", ["Pending", "Processing", "Failed", "Complete"])
def test_a_call_looks_at_so_many_requests_only(status: str, store: Session) -> None:
    made = store.put(10)
    if status != "Pending":
        held = store.claim(limit=10)
    if status == "Failed":
        store.fail(held, [DEAD] * 10)
    if status == "Complete":
        store.complete(held)
    page = store.find_requests(kind="none", look=4)
    assert (page.requests, page.after) == ([], made[6])
    page = store.find_requests(kind="none", look=4, after=page.after)
    assert (page.requests, page.after) == ([], made[2])
    page = store.find_requests(kind="none", look=4, after=page.after)
    assert page == Found([], None)


@pytest.mark.parametrize("look", [1, 3, 100])
def test_requests_in_the_lane_are_found(look: int, store: Session) -> None:
    run = store.begun("load")
    store.put(2)
    store.lay("load", run, [{"kind": "b"}] * 3)
    store.put()
    store.lay("load", run, [{"kind": "b"}] * 2, 1 << 16)
    store.put()
    store.promote("load", run, 5)
    every = store.rows("requests", "request_id")
    assert len(every) == 9
    newest_first = [request for (request,) in reversed(every)]
    assert all_pages(store, look=look) == newest_first
    assert all_pages(store, look=look, limit=2, status=["Pending"]) == newest_first
    assert all_pages(store, look=look, status=["Scheduled"]) == []
    assert all_pages(store, look=look, max_age=timedelta(hours=1)) == newest_first
    assert all_pages(store, look=look, ids=newest_first) == newest_first
    in_lane = [request for (request,) in reversed(store.rows("lane", "request_id"))]
    assert all_pages(store, look=look, load_id="load", max_priority=0) == in_lane
    assert all_pages(store, look=look, load_id="load", min_priority=1) == []
    assert all_pages(store, look=look, worker="one") == []
