"""The producer's side without a database: what a payload may be, and when a call is made again."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowlease.client import TRIES, Client, encode, new_request
from rowlease.errors import (
    AccessDenied,
    InvalidRequest,
    QueueFull,
    RowleaseError,
    StoreConflict,
    StoreUnavailable,
)
from rowlease.model import MAX_PAYLOAD_BYTES, MAX_PRIORITY, Enqueued, NewRequest, Outcome
from rowlease.tasks import Task

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


# -- payloads ----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(JSON)
def test_every_json_value_comes_back_as_it_was(payload: Any) -> None:
    assert json.loads(encode(payload)) == ({} if payload is None else payload)


def test_the_text_is_compact_and_keeps_its_letters() -> None:
    assert encode({"city": "Zürich", "n": [1, 2]}) == '{"city":"Zürich","n":[1,2]}'


def test_nothing_is_an_empty_object() -> None:
    assert encode(None) == "{}"


@pytest.mark.parametrize(
    "payload", [{"a": 1}, OrderedDict(a=1), MappingProxyType({"a": 1})], ids=lambda p: type(p)
)
def test_any_mapping_is_an_object(payload: Any) -> None:
    assert encode(payload) == '{"a":1}'


@pytest.mark.parametrize(
    "payload",
    [
        math.nan,
        {"a": [math.inf]},
        {1, 2},
        b"bytes",
        {"when": datetime(2026, 1, 1, tzinfo=UTC)},
        {("a", "b"): 1},
        object(),
        10**5000,
        "half of a character: \ud800",
        {"\udfff": 1},
        ENDLESS,
        DEEP,
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_what_is_not_json_is_refused_with_its_reason(payload: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^the payload is not JSON: .+") as raised:
        encode(payload)
    assert raised.value.__cause__ is not None


def test_the_limit_counts_bytes_and_not_letters() -> None:
    quotes = 2
    assert len(encode("a" * (MAX_PAYLOAD_BYTES - quotes)).encode()) == MAX_PAYLOAD_BYTES
    assert encode("é" * ((MAX_PAYLOAD_BYTES - quotes) // 2))
    for payload in ("a" * (MAX_PAYLOAD_BYTES - 1), "é" * (MAX_PAYLOAD_BYTES // 2)):
        with pytest.raises(InvalidRequest, match=r"^payload has \d+ bytes; at most 1048576 fit"):
            encode(payload)


# -- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [-1, -(10**30), True, False, 1.0, "3", math.nan])
def test_a_priority_is_an_integer_of_0_or_more(priority: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^priority is .+; it must be .*0 or more"):
        new_request("x", priority=priority)


@given(st.integers(min_value=0))
def test_a_priority_above_every_maximum_is_clamped(priority: int) -> None:
    assert new_request("x", priority=priority).priority == min(priority, MAX_PRIORITY)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no time zone"):
        new_request("x", due_time=datetime(2026, 1, 1))
    due = datetime(2026, 1, 1, tzinfo=UTC)
    assert new_request("x", due_time=due).due_time == due


def test_a_task_gives_what_the_producer_leaves_open() -> None:
    task = Task(print, "shout", priority=7, max_attempts=2)
    assert new_request(task, [1]) == NewRequest(
        kind="shout", payload="[1]", priority=7, max_attempts=2
    )
    mine = new_request(task, priority=0, max_attempts=9, delay=timedelta(seconds=1))
    assert (mine.priority, mine.max_attempts, mine.delay) == (0, 9, timedelta(seconds=1))


def test_a_name_is_enough_where_the_tasks_code_is_not_at_hand() -> None:
    assert new_request("shout") == NewRequest(kind="shout")


# -- calls -------------------------------------------------------------------------------------


class Line:
    """A store that answers as it is told, and remembers how it was called."""

    def __init__(self, *answers: RowleaseError | Outcome) -> None:
        self.answers = list(answers)
        self.calls: list[dict[str, Any]] = []

    def enqueue_many(
        self, queue: str, requests: Sequence[NewRequest], **options: Any
    ) -> list[Enqueued]:
        self.calls.append({"queue": queue, "requests": requests, **options})
        answer = self.answers.pop(0)
        if isinstance(answer, RowleaseError):
            raise answer
        return [Enqueued(number, answer) for number, _ in enumerate(requests, 1)]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a client would have made."""
    made: list[float] = []
    monkeypatch.setattr("rowlease.client.time.sleep", made.append)
    return made


@contextmanager
def client_of(line: Line, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    @contextmanager
    def connect(dsn: str | None) -> Iterator[Line]:
        yield line

    monkeypatch.setattr("rowlease.client.connect", connect)
    with Client() as client:
        yield client


def test_a_call_whose_fate_is_unknown_is_made_again_with_the_same_receipt(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(StoreUnavailable(), StoreConflict(), Outcome.REPEAT)
    with client_of(line, monkeypatch) as client:
        answer = client.enqueue("x")
    assert answer == Enqueued(1, Outcome.REPEAT)
    receipts = {call["receipt_key"] for call in line.calls}
    assert len(line.calls) == 3
    assert len(receipts) == 1
    assert None not in receipts
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1] * 2


def test_every_call_has_a_receipt_of_its_own(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(Outcome.OK, Outcome.OK)
    with client_of(line, monkeypatch) as client:
        client.enqueue("x")
        client.enqueue("x")
    assert len({call["receipt_key"] for call in line.calls}) == 2


def test_a_client_gives_up_and_says_why(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(*[StoreUnavailable("gone fishing")] * TRIES)
    with client_of(line, monkeypatch) as client, pytest.raises(StoreUnavailable, match="fishing"):
        client.enqueue("x")
    assert not line.answers
    assert len(pauses) == TRIES - 1


@pytest.mark.parametrize("error", [QueueFull(), InvalidRequest(), AccessDenied()])
def test_what_will_not_change_is_not_tried_again(
    error: RowleaseError, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(error)
    with client_of(line, monkeypatch) as client, pytest.raises(type(error)):
        client.enqueue("x")
    assert len(line.calls) == 1
    assert not pauses


def test_in_the_callers_transaction_a_call_is_made_once_and_without_a_receipt(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    connection = object()
    line = Line(StoreUnavailable())
    with client_of(line, monkeypatch) as client, pytest.raises(StoreUnavailable):
        client.enqueue("x", connection=connection)
    (call,) = line.calls
    assert call["connection"] is connection
    assert "receipt_key" not in call
    assert not pauses


@pytest.mark.parametrize(
    ("task", "queue", "expected"),
    [
        ("x", None, "default"),
        ("x", "mail", "mail"),
        ("x", "", ""),
        (Task(print), None, "default"),
        (Task(print, queue="paper"), None, "paper"),
        (Task(print, queue="paper"), "mail", "mail"),
    ],
)
def test_a_request_goes_where_the_producer_says_else_where_its_task_says(
    task: Any, queue: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(Outcome.OK)
    with client_of(line, monkeypatch) as client:
        client.enqueue(task, queue=queue)
    assert line.calls[0]["queue"] == expected


def test_a_client_outside_its_block_says_how_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(Outcome.OK)
    with client_of(line, monkeypatch) as client:
        pass
    for closed in (Client(), client):
        with pytest.raises(InvalidRequest, match="`with` block"):
            closed.enqueue("x")
