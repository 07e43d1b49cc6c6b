"""The client without a database: valid payloads, and repeated calls."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowlease.client.client import Client
from rowlease.client.enqueue_call import EnqueueCall
from rowlease.client.sending import RETRY_FOR, Sending
from rowlease.errors import (
    AccessDenied,
    ConfigError,
    EnqueueUnknown,
    InvalidRequest,
    QueueFull,
    RowleaseError,
    StoreConflict,
    StoreTimeout,
    StoreUnavailable,
)
from rowlease.model import MAX_PAYLOAD_BYTES, MAX_PRIORITY, Enqueued, NewRequest, Outcome
from rowlease.store import open_store
from rowlease.tasks.codec import encode
from rowlease.tasks.requests import CALL_OPTIONS, REQUEST_OPTIONS, untyped_request
from rowlease.tasks.task import Task

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


@settings(max_examples=50)
@given(JSON)
def test_every_json_value_comes_back_as_it_was(payload: Any) -> None:
    assert json.loads(encode(payload)) == payload


def test_the_text_is_compact_and_keeps_its_letters() -> None:
    assert encode({"city": "Zürich", "n": [1, 2]}) == '{"city":"Zürich","n":[1,2]}'


def test_nothing_is_an_empty_object() -> None:
    assert untyped_request("x").new.payload == "{}"


@pytest.mark.parametrize(
    "payload", [{"a": 1}, OrderedDict(a=1), MappingProxyType({"a": 1})], ids=lambda p: type(p)
)
def test_any_mapping_is_an_object(payload: Any) -> None:
    assert encode(payload) == '{"a":1}'


def test_a_number_of_thousands_of_digits_is_shown_by_its_type() -> None:
    with pytest.raises(InvalidRequest, match="headers is a value of type int"):
        untyped_request("a", headers=10**5000)  # type: ignore[arg-type]


def test_a_payload_may_be_nested_500_levels_deep() -> None:
    """The object of the arguments is the first level. Brackets in texts do not count."""

    def levels(number: int) -> Any:
        return [levels(number - 1)] if number else '[{\\"[' * 300

    untyped_request("deep", {"a": levels(499), "b": [[] for _ in range(1000)]})
    with pytest.raises(InvalidRequest, match="nested more than 500 levels deep"):
        untyped_request("deep", {"a": levels(500)})


@pytest.mark.parametrize(
    "payload",
    [
        math.nan,
        {"a": [math.inf]},
        {"a": [None, math.nan]},
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
        untyped_request("x", payload)
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("payload", [[1], "text", 7, (), False])
def test_a_payload_that_names_no_arguments_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidRequest, match="it must be a mapping of arguments by name"):
        untyped_request("x", payload)


def test_the_limit_counts_bytes_and_not_letters() -> None:
    quotes = 2
    assert len(encode("a" * (MAX_PAYLOAD_BYTES - quotes)).encode()) == MAX_PAYLOAD_BYTES
    assert encode("é" * ((MAX_PAYLOAD_BYTES - quotes) // 2))
    for payload in ("a" * (MAX_PAYLOAD_BYTES - 1), "é" * (MAX_PAYLOAD_BYTES // 2)):
        with pytest.raises(
            InvalidRequest, match=r"^the payload is \d+ bytes of JSON; the limit is 104"
        ):
            untyped_request("x", payload)


# -- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("priority", [-1, -(10**30), True, False, 1.0, "3", math.nan])
def test_a_priority_is_an_integer_of_0_or_more(priority: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^priority is .+; it must be .*0 or more"):
        untyped_request("x", priority=priority)


@given(st.integers(min_value=0))
def test_a_priority_above_every_maximum_is_clamped(priority: int) -> None:
    assert untyped_request("x", priority=priority).new.priority == min(priority, MAX_PRIORITY)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no time zone"):
        untyped_request("x", due_time=datetime(2026, 1, 1))
    due = datetime(2026, 1, 1, tzinfo=UTC)
    assert untyped_request("x", due_time=due).new.due_time == due


def test_a_task_gives_what_the_producer_leaves_open() -> None:
    task = Task(resize, "shout", queue="loud", priority=7, max_attempts=2)
    made = task.request("a", 1)
    assert made.queue == "loud"
    assert made.new == NewRequest(
        kind="shout", payload='{"image":"a","width":1}', priority=7, max_attempts=2
    )
    optioned = task.with_options(priority=0, max_attempts=9).with_options(
        delay=timedelta(seconds=1), queue="soft"
    )
    mine = optioned.request("a", 1)
    assert (mine.new.priority, mine.new.max_attempts) == (0, 9)
    assert mine.new.delay == timedelta(seconds=1)
    assert mine.queue == "soft"
    assert task.request("a", 1) == made


def test_a_name_is_enough_without_the_tasks_code() -> None:
    assert untyped_request("shout").new == NewRequest(kind="shout")


# -- values of a wrong type --------------------------------------------------------------------


def plain() -> None: ...


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


#: One of each type; every parameter refuses those that are not its own.
VALUES: list[Any] = [
    3,
    -3,
    2.5,
    True,
    "text",
    b"bytes",
    ["list"],
    ("tuple",),
    {"a": 1},
    {"set"},
    date(2026, 1, 1),
    time(12),
    datetime(2026, 1, 1, tzinfo=UTC),
    timedelta(seconds=3),
    plain,
    print,
    lambda: None,
    Task(plain),
    Task,
    NewRequest(kind="a"),
    untyped_request("a"),
    [untyped_request("a")],
    iter(()),
    object(),
    Unprintable(),
]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def is_duration(value: Any) -> bool:
    return isinstance(value, timedelta)


def is_batch(value: Any) -> bool:
    return value == [untyped_request("a")] or hasattr(value, "__next__")


#: What each parameter takes of these.
TAKEN: dict[str, Callable[[Any], bool]] = {
    "task": lambda value: isinstance(value, Task),
    "queue": is_text,
    "priority": is_count,
    "delay": is_duration,
    "due_time": lambda value: isinstance(value, datetime),
    "dedup_key": is_text,
    "group_key": is_text,
    "max_attempts": lambda value: type(value) is int,  # its range is the database's to check
    "retry_base": is_duration,
    "expires": is_duration,
    "wait": is_duration,
    "requests": is_batch,
    "kind": is_text,
    "receipt": is_text,
    "batch_id": is_text,
    "after": is_text,
    "headers": lambda value: False,
}


def refusal(call: Callable[[], Any]) -> str | None:
    """The sentence in which a call is refused; None if it is accepted. All else is raised."""
    try:
        call()
    except InvalidRequest as refused:
        return str(refused)
    return None


def is_refused_if_wrong(name: str, value: Any, call: Callable[[], Any]) -> None:
    message = refusal(call)
    if TAKEN[name](value):
        assert message is None
    else:
        assert message is not None
        subject = "first argument" if name == "task" else name
        assert re.match(rf"(the )?{subject}(\[0\])? is ", message)
        assert re.search("it must|give|use|write|decorate", message)  # what to do
        assert len(message) < 400


@pytest.mark.parametrize("name", ["kind", "task", *sorted(REQUEST_OPTIONS)])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_of_a_wrong_type_is_refused_and_says_what_to_give(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(Line(Outcome.OK, Outcome.OK), monkeypatch) as client:

        def call() -> None:
            if name == "task":
                client.enqueue(value)
            elif name == "kind":
                client.enqueue_untyped(value)
            else:
                client.enqueue_untyped("x", **{name: value})
                client.enqueue(Task(plain).with_options(**{name: value}))

        is_refused_if_wrong(name, value, call)


@pytest.mark.parametrize("name", ["requests", *sorted(CALL_OPTIONS)])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_batch_of_a_wrong_type_is_refused_and_says_what_to_give(
    name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"requests": [], name: value}
    with client_of(Line(Outcome.OK), monkeypatch) as client:
        is_refused_if_wrong(
            name, value, lambda: client.enqueue_many(given.pop("requests"), **given)
        )


def test_an_option_that_there_is_not_is_a_type_error() -> None:
    client: Any = Client()
    for call in (
        lambda: Task(plain).with_options(prio=3),  # type: ignore[call-arg]
        lambda: untyped_request("x", wait=timedelta(1)),  # type: ignore[call-arg]
        lambda: client.enqueue_untyped("x", prio=3),
        lambda: client.enqueue_many([], priority=3),
    ):
        with pytest.raises(TypeError, match=r"^there is no option '\w+'; the options are: "):
            call()


def test_options_of_a_call_are_not_a_requests() -> None:
    with pytest.raises(InvalidRequest, match=r"receipt is an option of a call, .* enqueue_many"):
        Task(plain).with_options(receipt="mine").request()


def test_a_batch_has_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    batch = [untyped_request("x"), untyped_request("x", queue="mail")]
    with (
        client_of(line, monkeypatch) as client,
        pytest.raises(InvalidRequest, match=r"for several queues \(default, mail\); make one"),
    ):
        client.enqueue_many(batch)
    assert not line.calls


@pytest.mark.parametrize("name", [field.name for field in fields(NewRequest)])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_request_made_by_hand_refuses_a_value_of_a_wrong_type(name: str, value: Any) -> None:
    if name in ("payload", "headers"):
        if not isinstance(value, str):
            message = refusal(lambda: NewRequest(**{"kind": "x", name: value}))
            assert message is not None
            assert "JSON text" in message
    elif name != "priority":  # its range is the database's to check
        is_refused_if_wrong(name, value, lambda: NewRequest(**{"kind": "x", name: value}))


def test_the_error_for_a_plain_function_says_how_to_make_it_a_task() -> None:
    with pytest.raises(InvalidRequest, match=r"decorate it with @rowlease\.task"):
        Client().enqueue(plain)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"by a task.s name, use enqueue_untyped"):
        Client().enqueue("plain")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "connection", [3, "text", {}, plain, SimpleNamespace(connection=None), psycopg.AsyncConnection]
)
def test_a_connection_of_another_kind_is_refused(connection: Any) -> None:
    with (
        closing(open_store("postgresql://nobody@localhost/nowhere")) as store,
        pytest.raises(
            ConfigError, match="connection must be a connection of psycopg, psycopg2 or Django"
        ),
    ):
        store.enqueue_many("default", [], connection=connection)


def test_none_is_not_bound() -> None:
    """The enqueue would be in no transaction of the caller, and outlive a rollback."""
    with (
        Client.over(open_store("postgresql://nobody@localhost/nowhere")) as client,
        pytest.raises(ConfigError, match="connection is None"),
    ):
        client.bind(None)


@pytest.mark.parametrize("dsn", [3, b"postgresql://", ["x"], plain])
def test_a_dsn_is_text(dsn: Any) -> None:
    with pytest.raises(ConfigError, match=r"^dsn is .*; it must be a string"), Client(dsn):
        pass


# -- arguments that do not fit -----------------------------------------------------------------


def resize(image: str, width: int, *, keep: bool = False) -> None: ...


async def fetch(url: str) -> None: ...


def swallow(*args: Any, **kwargs: Any) -> None: ...


@functools.wraps(resize)
def with_width(image: str) -> None:
    """A decorator that gives an argument of its own: the signature is not the function's."""


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "message"),
    [
        (resize, ["a"], {}, "'width'"),
        (resize, [], {"imag": "a", "width": 1}, "'image'"),
        (resize, ["a", 1], {"wide": 2}, "'wide'"),
        (resize, ["a", 1, True], {}, "too many positional arguments"),
        (resize, ["a", 1], {"image": "b"}, "multiple values for argument 'image'"),
        (resize, ["a", "1"], {}, "Expected `int`, got `str` - at `width`"),
        (resize, ["a", 1], {"keep": None}, "Expected `bool`, got `null` - at `keep`"),
        (resize, [], {}, "'image'"),
        (fetch, [], {"uri": "x"}, "'url'"),
        (fetch, ["x"], {}, None),
        (resize, ["a", 1], {"keep": True}, None),
        (swallow, [], {"what": "ever"}, None),
        (swallow, ["what"], {}, "arguments for `*args` cannot be enqueued"),
        (with_width, ["a"], {}, None),
    ],
)
def test_arguments_that_do_not_fit_the_task_are_refused_at_once(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], message: str | None
) -> None:
    refused = refusal(lambda: Task(function, "job").request(*args, **kwargs))
    if message is None:
        assert refused is None
    else:
        assert refused is not None
        assert refused.startswith("the payload does not fit the task job(")
        assert message in refused


# -- calls -------------------------------------------------------------------------------------


class Line:
    """A store with scripted answers, which records its calls."""

    def __init__(self, *answers: RowleaseError | Outcome) -> None:
        self.answers = list(answers)
        self.clock: Clock | None = None
        self.timeout = timedelta(0)
        self.calls: list[dict[str, Any]] = []

    def enqueue_many(
        self, queue: str, requests: Sequence[NewRequest], **options: Any
    ) -> list[Enqueued]:
        self.calls.append({"queue": queue, "requests": requests, **options})
        answer = self.answers.pop(0)
        if isinstance(answer, RowleaseError):
            if answer.args == ("late",):
                assert self.clock
                self.clock.now += self.timeout.total_seconds()
            raise answer
        return [Enqueued(number, answer) for number, _ in enumerate(requests, 1)]

    def within(self, timeout: timedelta) -> Line:
        self.timeout = timeout
        return self


class Clock:
    """A clock that `sleep` moves, in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The client's time."""
    made = Clock()
    monkeypatch.setattr("rowlease.client.sending.time", made)
    return made


@pytest.fixture
def pauses(clock: Clock) -> list[float]:
    """The pauses that a client would have made."""
    return clock.pauses


def late() -> StoreTimeout:
    """It takes all the time of the call."""
    return StoreTimeout("late")


def cut() -> StoreUnavailable:
    """The connection is lost while a call is under way."""
    error = StoreUnavailable("the connection is lost")
    error.maybe_done = True
    return error


@contextmanager
def client_of(line: Line, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Client]:
    @contextmanager
    def connect(dsn: str | None) -> Iterator[Line]:
        yield line

    monkeypatch.setattr("rowlease.client.client.connect", connect)
    with Client(**options) as client:
        yield client


def test_a_call_whose_fate_is_unknown_is_made_again_with_the_same_receipt(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(StoreUnavailable(), StoreConflict(), Outcome.REPEAT)
    with client_of(line, monkeypatch) as client:
        answer = client.enqueue_untyped("x")
    assert (answer.request_id, answer.outcome) == (1, Outcome.REPEAT)
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
        client.enqueue_untyped("x")
        client.enqueue_untyped("x")
    assert len({call["receipt_key"] for call in line.calls}) == 2


def test_a_client_outlasts_a_failover(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    line = Line(*[StoreUnavailable()] * 15, Outcome.OK)
    began = clock.now
    with client_of(line, monkeypatch) as client:
        assert client.enqueue_untyped("x").outcome is Outcome.OK
    assert 10 < clock.now - began < RETRY_FOR.total_seconds()


@pytest.mark.parametrize("retry_for", [RETRY_FOR, timedelta(seconds=3), timedelta(minutes=5)])
def test_a_client_gives_up_in_time_and_says_why(
    retry_for: timedelta, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    line = Line(*[StoreUnavailable("gone fishing")] * 1000)
    began = clock.now
    with (
        client_of(line, monkeypatch, retry_for=retry_for) as client,
        pytest.raises(StoreUnavailable, match=r"^gone fishing$"),
    ):
        client.enqueue_untyped("x")
    assert 0.5 < (clock.now - began) / retry_for.total_seconds() <= 1
    assert max(clock.pauses) <= 2


def test_a_session_that_never_answers_leaves_time_for_another(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    line = Line(*[late()] * 10)
    line.clock = clock
    began = clock.now
    with client_of(line, monkeypatch) as client, pytest.raises(EnqueueUnknown):
        client.enqueue_untyped("x")
    assert len(line.calls) == 3
    assert clock.now - began == pytest.approx(RETRY_FOR.total_seconds(), abs=0.01)


def test_without_time_for_others_there_is_one_try(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    line = Line(StoreUnavailable("gone fishing"))
    with (
        client_of(line, monkeypatch, retry_for=timedelta(0)) as client,
        pytest.raises(StoreUnavailable, match="fishing"),
    ):
        client.enqueue_untyped("x")
    assert line.timeout == timedelta(0)  # the store's own
    assert not clock.pauses


@pytest.mark.parametrize("retry_for", [RETRY_FOR, timedelta(0)])
def test_a_call_that_found_no_thread_in_time_is_not_sent(
    retry_for: timedelta, clock: Clock
) -> None:
    class Busy:
        async def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
            clock.now += RETRY_FOR.total_seconds()
            return work(*arguments)

    line: Any = Line()
    sending = Sending(line, EnqueueCall([untyped_request("x")], {}), retry_for)
    with pytest.raises(StoreUnavailable, match="all threads of the client were busy") as late:
        asyncio.run(sending.send_in(cast("Any", Busy())))
    assert not late.value.maybe_done
    assert not line.calls


@pytest.mark.parametrize("retry_for", [30, None, timedelta(seconds=-1)])
def test_the_time_for_tries_is_a_timedelta(retry_for: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"retry_for is .*; it must be .*0 or more"):
        Client(retry_for=retry_for)


@pytest.mark.parametrize("lost", [cut(), late()], ids=["cut", "late"])
@pytest.mark.parametrize(
    "last", [StoreUnavailable("still away"), QueueFull("full"), InvalidRequest("no such queue")]
)
def test_if_one_try_may_have_enqueued_the_error_has_the_receipt(
    lost: StoreUnavailable, last: RowleaseError, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    line = Line(lost, *[last] * 1000)
    line.clock = clock
    with client_of(line, monkeypatch) as client, pytest.raises(EnqueueUnknown) as raised:
        client.enqueue_untyped("x")
    receipt = raised.value.receipt
    assert {call["receipt_key"] for call in line.calls} == {receipt}
    assert f"not known whether the requests were enqueued ({last})" in str(raised.value)
    assert f"receipt='{receipt}'" in str(raised.value)
    assert raised.value.__cause__ is last
    assert not raised.value.transient  # again, but not without the receipt

    line = Line(Outcome.REPEAT)
    with client_of(line, monkeypatch) as client:
        assert client.enqueue_untyped("x", receipt=receipt).outcome is Outcome.REPEAT
    assert line.calls[0]["receipt_key"] == receipt


@pytest.mark.parametrize("receipt", ["", "x" * 101])
def test_a_receipt_has_1_to_100_characters(receipt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(Outcome.OK)
    with (
        client_of(line, monkeypatch) as client,
        pytest.raises(InvalidRequest, match="it must have 1 to 100 characters"),
    ):
        client.enqueue_untyped("x", receipt=receipt)
    assert not line.calls


@pytest.mark.parametrize("error", [QueueFull(), InvalidRequest(), AccessDenied()])
def test_what_will_not_change_is_not_tried_again(
    error: RowleaseError, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    line = Line(error)
    with client_of(line, monkeypatch) as client, pytest.raises(type(error)):
        client.enqueue_untyped("x")
    assert len(line.calls) == 1
    assert not pauses


@pytest.mark.parametrize("receipt", [None, "mine"])
def test_in_the_callers_transaction_a_call_is_made_once_and_with_the_callers_receipt_alone(
    receipt: str | None, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    connection = object()
    line = Line(StoreUnavailable())
    with client_of(line, monkeypatch) as client, pytest.raises(StoreUnavailable):
        client.bind(connection).enqueue_untyped("x", receipt=receipt)
    (call,) = line.calls
    assert call["connection"] is connection
    assert call["receipt_key"] == receipt
    assert not pauses


@pytest.mark.parametrize(
    ("task", "queue", "expected"),
    [
        ("x", None, "default"),
        ("x", "mail", "mail"),
        ("x", "", ""),
        (Task(plain), None, "default"),
        (Task(plain, queue="paper"), None, "paper"),
        (Task(plain, queue="paper"), "mail", "mail"),
    ],
)
def test_a_request_goes_where_the_producer_says_else_where_its_task_says(
    task: Any, queue: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line(Outcome.OK)
    with client_of(line, monkeypatch) as client:
        if isinstance(task, Task):
            client.enqueue(task.with_options(queue=queue))
        else:
            client.enqueue_untyped(task, queue=queue)
    assert line.calls[0]["queue"] == expected


def test_a_client_outside_its_block_says_how_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(Outcome.OK)
    with client_of(line, monkeypatch) as client:
        pass
    for closed in (Client(), client):
        with pytest.raises(InvalidRequest, match="`with` block"):
            closed.enqueue_untyped("x")
