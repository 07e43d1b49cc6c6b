"""A payload is an object of arguments by name, whichever way it comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rowlease.errors import InvalidRequest
from rowlease.model import NewRequest
from tests.contract.sessions import Session

OBJECT = "payload must be a JSON object of arguments by name, without half of a surrogate pair"
TWICE = 'payload names the argument "a" twice; give each argument one value'
HEADERS = "headers must be a JSON object of strings"


def by_enqueue(store: Session, **given: Any) -> None:
    store._call("enqueue", **{f"p_{name}": value for name, value in given.items()},
                p_queue_name="default", p_kind="a")  # fmt: skip


def by_enqueue_with_a_key(store: Session, **given: Any) -> None:
    store.enqueue_many("default", [NewRequest(kind="a", dedup_key="k", **given)])


def by_enqueue_many(store: Session, **given: Any) -> None:
    store.enqueue_many("default", [NewRequest(kind="a"), NewRequest(kind="a", **given)])


def by_inbox(store: Session, **given: Any) -> None:
    store.insert("inbox", kind="a", **given)


def by_lane(store: Session, **given: Any) -> None:
    run = store.begun("x")
    store.lay("x", run, [{"kind": "a", **given}, {"kind": "a"}])
    store.promote("x", run, 2)


def by_schedule(store: Session, **given: Any) -> None:
    store.put_schedule("nightly", "0 0 * * *", "a", **given)


WAYS: dict[str, Callable[..., None]] = {
    "enqueue": by_enqueue,
    "enqueue_with_a_key": by_enqueue_with_a_key,
    "enqueue_many": by_enqueue_many,
    "inbox": by_inbox,
    "lane": by_lane,
    "schedule": by_schedule,
}


@pytest.mark.parametrize(
    "payload",
    [
        "[1]",
        "null",
        "7",
        '"text"',
        " [{}]",
        r'{"a": "\ud800"}',
        r'{"a": "\uDFFF"}',
        r'{"a": "\ude00\ud83d"}',
        r'{"a": ["\ud83dx\ude00"]}',
        r'{"\ud83d": 1}',
        r'{"a": "\\\ud83d"}',
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_object_or_holds_half_a_pair_is_refused(
    store: Session, way: str, payload: str
) -> None:
    with pytest.raises(InvalidRequest, match=OBJECT):
        WAYS[way](store, payload=payload)
    assert store.everything() == []
    assert store.list_schedules() == []


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        ' \n\t{"a": [1, {"b": null}]}',
        r'{"a": "\ud83d\ude00"}',
        r'{"a": "\uD83D\uDE00\ud83d\ude00", "b": "\\ud800"}',
        r'{"a": "\u0000\n\"\/", "b": "\ud7ff\ue000"}',
        '{"a": "😀", "A": {"a": 1}}',
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_an_object_comes_in_and_out_as_it_is(store: Session, way: str, payload: str) -> None:
    store.must_hold(payload)
    WAYS[way](store, payload=payload)
    if way == "schedule":
        assert store.list_schedules()[0].payload == payload
    else:
        assert payload in {request.payload for request in store.claim(limit=9)}


@pytest.mark.parametrize("way", ["inbox", "lane", "schedule"])
def test_an_argument_that_is_named_twice_is_refused(store: Session, way: str) -> None:
    with pytest.raises(InvalidRequest, match=TWICE):
        WAYS[way](store, payload='{"a": 1, "b": {}, "a": 2}')
    assert store.everything() == []
    assert store.list_schedules() == []


@pytest.mark.parametrize("headers", ['{"a": {"b": [1]}}', '{"a": null}', "[]", '"a"', '{"a": 1}'])
@pytest.mark.parametrize("way", WAYS)
def test_headers_are_checked_alike_on_every_way_in(store: Session, way: str, headers: str) -> None:
    with pytest.raises(InvalidRequest, match=HEADERS):
        WAYS[way](store, headers=headers)
    assert store.everything() == []


@pytest.mark.parametrize("way", WAYS)
def test_headers_of_any_text_come_in(store: Session, way: str) -> None:
    headers = json.dumps({"tenant": "ä\n😀", "Ü": ""})
    WAYS[way](store, headers=headers)
    if way != "schedule":
        assert headers in {request.headers for request in store.claim(limit=9)}
