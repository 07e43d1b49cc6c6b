"""Chains: the payload of a request names the request that follows it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rowlease import chain, task, untyped_request
from rowlease.errors import InvalidRequest, WrongArguments
from rowlease.model import MAX_PAYLOAD_BYTES, NewRequest
from rowlease.tasks.chains import successor_of
from rowlease.tasks.requests import TaskRequest


@task
def shrink(image: str, width: int = 100) -> int:
    return len(image) * width


@task(queue="web", priority=3, max_attempts=2, retry_base=timedelta(seconds=7))
def publish(size: int, place: str = "here", *, public: bool = True) -> str:
    return f"{size} {place} {public}"


@task(version=2, migrate=lambda arguments, version: arguments)
def announce(text: str) -> str:
    return text


@task
def clean_up() -> None: ...


def walked(request: TaskRequest[Any], *results: Any) -> list[tuple[str, str, Any]]:
    """The queue, kind and payload of each link, if the links have these results."""
    queue, new = request.queue, request.new
    links = [(queue, new)]
    for result in results:
        found = successor_of(new.payload, new.headers, json.dumps(result))
        assert found
        queue, new = found
        links.append((queue, new))
    assert successor_of(new.payload, new.headers, "1") is None
    payloads = [json.loads(new.payload) for _, new in links]
    for payload in payloads:
        payload.pop("$next", None)
    return [
        (queue, new.kind, payload) for (queue, new), payload in zip(links, payloads, strict=True)
    ]


def test_each_link_gets_the_result_of_the_link_before_as_its_first_argument() -> None:
    request = chain(shrink.s("a.png", width=2), publish.s("there", public=False), announce.s())
    assert walked(request, 10, "10 there") == [
        ("default", "shrink", {"image": "a.png", "width": 2}),
        ("web", "publish", {"size": 10, "place": "there", "public": False}),
        ("default", "announce", {"$version": 2, "text": "10 there"}),
    ]


def test_a_link_runs_with_its_arguments_and_does_not_see_the_rest_of_the_chain() -> None:
    request = chain(shrink.s("a.png"), publish.s())
    assert shrink.run(request.new.payload) == "500"
    found = successor_of(request.new.payload, None, "500")
    assert found
    assert publish.run(found.new.payload) == '"500 here True"'


def test_a_request_as_a_link_has_all_its_arguments() -> None:
    request = chain(shrink.s("a.png"), clean_up.request(), untyped_request("other", {"a": 1}))
    assert walked(request, 10, None) == [
        ("default", "shrink", {"image": "a.png"}),
        ("default", "clean_up", {}),
        ("default", "other", {"a": 1}),
    ]


def test_a_chain_may_be_a_link() -> None:
    inner = chain(shrink.s("a.png"), publish.s())
    request = chain(inner, announce.s(), chain(shrink.s("b.png"), publish.s()))
    results = [10, "10", None, 20]
    assert [kind for _, kind, _ in walked(request, *results)] == [
        "shrink", "publish", "announce", "shrink", "publish",
    ]  # fmt: skip
    assert [kind for _, kind, _ in walked(inner, 10)] == ["shrink", "publish"]


def test_a_link_keeps_its_options() -> None:
    options: dict[str, Any] = {
        "delay": timedelta(minutes=1), "dedup_key": "k", "group_key": "g", "headers": {"a": "own"},
    }  # fmt: skip
    first = shrink.with_options(expires=timedelta(minutes=1)).s("a.png")
    request = chain(first, publish.with_options(**options).s())
    assert request.new.headers == '{"expires_seconds":"60.0"}'
    before = '{"a":"before","b":"before","expires_seconds":"60.0"}'
    found = successor_of(request.new.payload, before, "10")
    assert found
    assert found.new == NewRequest(
        kind="publish", payload='{"size":10}', priority=3, delay=timedelta(minutes=1),
        dedup_key="k", group_key="g", max_attempts=2, retry_base=timedelta(seconds=7),
        headers='{"a":"own","b":"before"}',
    )  # fmt: skip


def test_a_link_without_a_result_gives_none() -> None:
    request = chain(clean_up.s(), announce.s())
    found = successor_of(request.new.payload, None, None)
    assert found
    assert json.loads(found.new.payload) == {"$version": 2, "text": None}


def test_who_enqueues_a_chain_as_in_another_library_is_told_how() -> None:
    link = shrink.s("a.png")
    for what, name in ((chain(link, publish.s()), "TaskRequest"), (link, "Link")):
        with pytest.raises(AttributeError) as refused:
            what.delay()  # type: ignore[union-attr]
        assert str(refused.value) == f"a {name} has no 'delay'; use client.enqueue_many([...])"
        with pytest.raises(TypeError, match=rf"a {name} cannot be called; use client.enqueue_many"):
            what()  # type: ignore[operator]


def test_a_text_that_only_looks_like_a_successor_is_an_argument() -> None:
    for payload in ('{"text":"$next"}', '{"$next":null}', '{"a":{"$next":{"kind":"x"}}}', "{}"):
        assert successor_of(payload, None, "1") is None
        assert successor_of(payload.encode(), None, "1") is None


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (
            '{"$next":5}',
            "the successor of the request is wrong: Expected `object . null`, got `int`",
        ),
        ('{"$next":{"payload":{}}}', "missing required field `kind`"),
        ('{"$next":{"kind":"a","payload":{},"colour":1}}', "unknown field `colour`"),
        ('{"$next":{"kind":"a","payload":{},"delay_ms":1e30}}', "the successor .* is wrong"),
    ],
)
def test_a_wrong_successor_is_one_clear_error(payload: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        successor_of(payload, None, "1")


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "a chain has no link"),
        ([shrink], "a link is <task shrink>; give the results of task.s"),
        ([shrink.s()], "missing a required argument: 'image'"),
        ([shrink.s("a"), shrink], "a link is <task shrink>; give the results of task.s"),
        (
            [shrink.s("a"), clean_up.s()],
            r"clean_up\(\): too many positional .*, use request\(...\)",
        ),
        ([shrink.s("a"), publish.s(size=1)], "multiple values for argument 'size'"),
        ([shrink.s("a"), publish.s(5)], "Expected `str`, got `int` - at `place`"),
        ([shrink.s("a"), publish.s(colour=1)], "unexpected keyword argument 'colour'"),
        ([shrink.s("a"), publish.s(queue="x")], r"an option is set by with_options\(queue="),
        ([shrink.s("a"), publish.with_options(after="b").s()], "after is an option of a call"),
        (
            [shrink.s("a"), publish.with_options(due_time=datetime.now(UTC)).s()],
            "the link publish has a due_time; give a delay",
        ),
        (
            [shrink.s("a" * (MAX_PAYLOAD_BYTES // 2)), publish.s("b" * (MAX_PAYLOAD_BYTES // 2))],
            "the payload of the chain is .* bytes of JSON; the limit is",
        ),
    ],
)
def test_a_wrong_chain_is_refused_where_it_is_written(links: list[Any], message: str) -> None:
    with pytest.raises((InvalidRequest, WrongArguments), match=message):
        chain(*links)
