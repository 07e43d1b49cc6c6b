"""The filter language, and payloads: as a producer gives them, and as a worker reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st

from rowlease import task
from rowlease.errors import InvalidRequest, Retry, RowleaseError, WrongFilter
from rowlease.filters.filter import STATUSES
from rowlease.filters.language import FILTER_KEYS, parse, quote
from rowlease.store import open_store
from rowlease.tasks.chains import batch_before, successor_of
from rowlease.tasks.cron import Cron
from rowlease.tasks.headers import encode_headers
from rowlease.tasks.requests import TaskRequest
from rowlease.tasks.task import encode_result
from tests.fuzz.surfaces import Meet, Surface, Unexplained, refused
from tests.fuzz.values import (
    CRONS,
    DURATIONS,
    NUMBERS,
    TIMES,
    ZONES,
    Draw,
    anything,
    fill,
    json_texts,
    json_values,
    storable,
    texts,
)

# -- the filter language ---------------------------------------------------------------------------

#: Right values of the keys that do not take any text.
RIGHT: dict[str, st.SearchStrategy[str]] = {
    "status": st.lists(st.sampled_from([*STATUSES, "failed"]), min_size=1, max_size=3).map(
        ",".join
    ),
    "id": st.lists(st.integers(0, 2**63 - 1).map(str), min_size=1, max_size=3).map(",".join),
    "priority": st.one_of(st.integers(0, 12), st.integers(0, 2**63 - 1)).map(str),
    "age": st.builds("{}{}".format, st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "d"])),
    "since": st.datetimes().map(datetime.isoformat),
    "until": st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
}
values = st.one_of(anything, st.sampled_from([*NUMBERS, *TIMES, *DURATIONS]))
names = texts.filter(bool)
noise = st.text('abq:"\\<>= \t\n,', max_size=20)


def filter_text(draw: Draw) -> str:
    """Some terms, most of them right; or any text."""
    if draw.is_rare(8):
        return str(draw.any(anything, noise))
    return " ".join(term(draw) for _ in range(draw.one([1, 1, 2, 3])))


def term(draw: Draw) -> str:
    key = draw.one([*FILTER_KEYS])
    if not draw.is_rare():
        sign = draw.one([*FILTER_KEYS[key][0]])
        return f"{key}{sign}{quote(draw.of(RIGHT.get(key, names)))}"
    value = draw.of(values)
    sign = draw.one([":", ">", "<", ">=", "<=", "=", "::"])
    return f"{draw.one([key, key, 'x', 'QUEUE', ''])}{sign}{draw.one([value, quote(value)])}"


@contextmanager
def opened_filters(dsn: str) -> Iterator[Meet]:
    """A filter that can be read is asked of the database, too."""
    fill(dsn)
    with closing(open_store(dsn)) as store:

        def meet(text: str) -> bool:
            try:
                store.find_requests(limit=5, **parse(text))
            except WrongFilter as error:
                if not 0 <= error.start < error.end <= len(text):
                    raise Unexplained(f"it points at nothing: {error}") from error
                return True
            except RowleaseError as error:
                return refused(error)
            return False

        yield meet


# -- payloads --------------------------------------------------------------------------------------


class Shade(Enum):
    DARK = "dark"


@dataclass
class Size:
    width: int
    height: int = 3


class Place(NamedTuple):
    x: int
    y: float


@task
def every(
    number: int = 0,
    text: str = "",
    share: float = 0.0,
    at: datetime | None = None,
    day: date | None = None,
    took: timedelta | None = None,
    price: Decimal | None = None,
    id: UUID | None = None,
    path: Path | None = None,
    data: bytes = b"",
    shade: Shade | None = None,
    size: Size | None = None,
    place: Place | None = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment]
    table: dict[str, list[int]] | None = None,
    either: int | list[str] | None = None,
    **more: Any,
) -> Any:
    return more


@task
def plain(a: int, b: str = "") -> int:
    return a


class Evil:
    def __repr__(self) -> str:
        raise ValueError("no text")

    __str__ = __hash__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


class EvilText(str):
    def encode(self, *_: Any, **__: Any) -> bytes:
        raise ValueError("no bytes")


def cyclic() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


python_values = st.one_of(
    json_values,
    st.binary(max_size=9),
    st.sets(st.integers(), max_size=3),
    st.datetimes(timezones=st.timezones()),
    st.timedeltas(),
    st.decimals(),
    st.complex_numbers(),
    st.uuids(),
    st.dictionaries(st.one_of(st.integers(), st.none(), st.tuples(st.integers())), anything),
    st.builds(Evil),
    st.builds(EvilText, texts),
    st.builds(cyclic),
    st.sampled_from([100, 499, 500, 5000, 100_000]).map(deep),
    st.sampled_from([object, len, ..., 10**5000, "x" * 1_048_577, Path(), range(3), Shade, Size]),
)
PARAMETERS = [*every.parameters._parameters, "a", "b", "$next", "self", "more", "x"]
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "queue": anything,
    "priority": st.one_of(st.integers(), anything),
    "delay": st.one_of(st.timedeltas(), anything),
    "due_time": st.one_of(st.datetimes(timezones=st.timezones()), st.datetimes()),
    "dedup_key": anything,
    "group_key": anything,
    "max_attempts": st.integers(),
    "retry_base": st.timedeltas(),
    "expires": st.timedeltas(),
    "headers": st.one_of(st.dictionaries(anything, anything, max_size=2), python_values),
}


class Given(NamedTuple):
    """Arguments and options of a producer."""

    routine: str
    values: Any


#: The headers of a request that the database has accepted.
kept_headers = st.dictionaries(storable, storable, max_size=2).map(encode_headers)
crons = st.one_of(st.sampled_from(CRONS), anything)
zones = st.one_of(st.sampled_from(ZONES), anything)


def something_given(draw: Draw) -> Given:
    match draw.one(["producer", "producer", "worker", "worker", "next", "result", "cron"]):
        case "producer":
            names = [draw.one(PARAMETERS) for _ in range(draw.one([0, 1, 1, 2, 3]))]
            names += [draw.of(anything)] if draw.is_rare() else []
            options = {name: draw.of(OPTIONS[name]) for name in draw.some(OPTIONS, 2)}
            named = {name: draw.of(python_values) for name in names}
            return Given("producer", (draw.is_rare(2), named, options))
        case "worker":
            return Given("worker", draw.of(json_texts))
        case "next":
            values = (draw.of(json_texts), draw.of(kept_headers), draw.of(json_values))
            return Given("successor", values)
        case "result":
            return Given("result", draw.of(python_values))
        case _:
            return Given("cron", (draw.of(crons), draw.of(zones)))


def produced(is_every: bool, named: dict[str, Any], given: dict[str, Any]) -> TaskRequest[Any]:
    one: Any = every if is_every else plain
    return one.with_options(**given).request(**named)  # type: ignore[no-any-return]


@contextmanager
def opened_payloads(dsn: str) -> Iterator[Meet]:
    """What a producer may enqueue, the database takes, and a worker can read."""
    fill(dsn)
    with closing(open_store(dsn)) as store:

        def meet(given: Given) -> bool:
            try:
                match given:
                    case ("producer", (is_every, named, options)):
                        request = produced(is_every, named, options)
                        one: Any = every if is_every else plain
                        one.parameters.arguments(request.new.payload)
                        with suppress(Undone):
                            store.in_transaction(lambda own: enqueue(own, request))
                    case ("worker", text):
                        every.parameters.arguments(text)
                        every.parameters.result(text)
                        plain.parameters.arguments(text)
                    case ("successor", (payload, headers, result)):
                        batch_before(payload)
                        successor_of(payload, headers, encoded(result))
                    case ("result", value):
                        encoded(value)
                    case ("cron", (expression, zone)):
                        Cron(expression, zone)
            except (RowleaseError, Retry) as error:
                return refused(error)
            return False

        def enqueue(own: Any, request: TaskRequest[Any]) -> None:
            store.enqueue_many(request.queue, [request.new], connection=own)
            raise Undone

        yield meet


def encoded(result: object) -> str | None:
    """As a worker does: a ValueError fails the attempt."""
    try:
        return encode_result(result, "a task")
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


class Undone(Exception):
    """A transaction is to be rolled back."""


FILTERS = Surface("the filter language", filter_text, opened_filters, share=25)
PAYLOADS = Surface("payloads", something_given, opened_payloads, share=25)
