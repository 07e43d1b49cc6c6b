"""What a producer gives is what the task gets: values of the types that its annotations name."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypedDict,
    Unpack,
    get_type_hints,
)
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from rowlease import register_type, task
from rowlease.errors import ConfigError, InvalidRequest, Retry, WrongArguments
from rowlease.tasks.loading import registry_of
from rowlease.tasks.task import Task

if TYPE_CHECKING:
    from collections import Counter


class Shade(Enum):
    DARK = "dark"
    LIGHT = "light"


@dataclass(frozen=True)
class Size:
    width: int
    height: int = 3


@dataclass
class Box:
    size: Size
    inner: Box | None = None


class Point(NamedTuple):
    x: int
    y: float


class Shape(msgspec.Struct, tag=True):
    points: list[Point]


class Circle(msgspec.Struct, tag=True):
    radius: Decimal


class Address(BaseModel):
    model_config = ConfigDict(strict=True)

    zip_code: str = Field(alias="zip")
    since: date


class Settings(TypedDict, total=False):
    size: Size
    at: datetime


class Money:
    """JSON does not know it, and neither does msgspec."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    def __hash__(self) -> int:
        return hash(self.cents)


register_type(Money, encode=lambda money: {"cents": money.cents}, decode=lambda w: Money(**w))

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
#: Annotations, values, and what a DBA reads.
VALUES: list[tuple[Any, Any, str]] = [
    (int, 7, "7"),
    (float, 7.5, "7.5"),
    (str | None, None, "null"),
    (datetime, NOON, '"2026-06-01T12:00:00Z"'),
    (date, date(2026, 6, 1), '"2026-06-01"'),
    (timedelta, timedelta(minutes=1, seconds=30), '"PT90S"'),
    (UUID, UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Decimal, Decimal("1.10"), '"1.10"'),
    (bytes, b"\0\xff", '"AP8="'),
    (set[int], {3}, "[3]"),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (dict[int, Shade], {1: Shade.DARK}, '{"1":"dark"}'),
    (Shade, Shade.LIGHT, '"light"'),
    (Literal["a", "b"], "b", '"b"'),
    (Size, Size(2), '{"width":2,"height":3}'),
    (list[Size | None], [Size(1, 2), None], '[{"width":1,"height":2},null]'),
    (Point, Point(1, 2.5), "[1,2.5]"),
    (Shape | Circle, Circle(Decimal(1)), '{"type":"Circle","radius":"1"}'),
    (Settings, {"size": Size(1)}, '{"size":{"width":1,"height":3}}'),
    (
        Address,
        Address(zip="79098", since=date(2026, 1, 1)),
        '{"zip":"79098","since":"2026-01-01"}',
    ),
    (Money, Money(3), '{"cents":3}'),
    (dict[str, list[Money]], {"a": [Money(3)]}, '{"a":[{"cents":3}]}'),
    (Path, Path("a/b"), '"a/b"'),
    (Any, {"a": [1, None, "x"]}, '{"a":[1,null,"x"]}'),
    (object, [1], "[1]"),
]


@pytest.mark.parametrize(
    ("annotation", "value", "written"), VALUES, ids=[str(each[0]) for each in VALUES]
)
def test_a_task_gets_what_its_annotation_names(annotation: Any, value: Any, written: str) -> None:
    got: list[Any] = []

    def keep(value: Any) -> Any:
        got.append(value)
        return value

    keep.__annotations__ = {"value": annotation, "return": annotation}
    kept = Task(keep)
    request = kept.request(value)
    assert request.new.payload == f'{{"value":{written}}}'
    result = kept.run(request.new.payload)
    assert (got, [type(each) for each in got]) == ([value], [type(value)])
    assert result == (None if value is None else written)
    assert request.decode(result) == value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "7"),
        (int, 7.5),
        (int, True),
        (float, float("nan")),
        (str, 7),
        (Size, {"height": 3}),
        (Shade, "bright"),
        (Address, {"zip": 7, "since": "2026-01-01"}),
        (Money, {"pence": 3}),
        (Literal["a"], "b"),
        (dict[int, str], {"x": "y"}),
    ],
)
def test_a_value_that_does_not_fit_the_annotation_is_refused_by_both_sides(
    annotation: Any, value: Any
) -> None:
    def keep(value: Any) -> None: ...

    keep.__annotations__ = {"value": annotation}
    kept = Task(keep)
    with pytest.raises(InvalidRequest, match=r"value|not JSON"):
        kept.request(value)
    if value == value:
        with pytest.raises(WrongArguments, match=r"at `(key` in `)?value"):
            kept.run(json.dumps({"value": value}))


def test_a_result_with_two_keys_that_are_the_same_text_is_no_json() -> None:
    @task
    def twice() -> object:
        return {1: 2, "1": 3}

    with pytest.raises(ValueError, match="is not JSON: two of its keys are the same text"):
        twice.run("{}")


def test_a_payload_with_a_name_that_the_task_does_not_have_is_refused() -> None:
    @task
    def resize(image: str, width: int = 100) -> None: ...

    assert resize.parameters.arguments('{"image": "a.png"}') == ([], {"image": "a.png"})
    with pytest.raises(WrongArguments, match="unexpected keyword argument 'heigth'"):
        resize.parameters.arguments('{"image": "a.png", "heigth": 3}')


def test_a_payload_that_is_nested_too_deeply_is_refused() -> None:
    @task
    def keep(**more: Any) -> Any: ...

    @task
    def keep_one(a: Any) -> Any: ...

    deep = '{"a":' * 9000 + "1" + "}" * 9000
    for one in (keep, keep_one):
        with pytest.raises(WrongArguments, match="the payload is nested too deeply to be read"):
            one.parameters.arguments(deep)
    with pytest.raises(WrongArguments, match="the result is nested too deeply to be read"):
        keep.parameters.result(deep)


def test_a_parameter_may_have_the_name_self() -> None:
    @task
    def keep(self: int) -> int:
        return self

    assert keep(self=1) == 1
    assert keep.request(self=1).new.payload == '{"self":1}'
    assert keep.s(self=1).kwargs == {"self": 1}


def test_an_option_among_the_arguments_is_named() -> None:
    @task
    def resize(image: str) -> None: ...

    with pytest.raises(
        WrongArguments, match=r"'priority'; an option is set by with_options\(priority=…\)$"
    ):
        resize.request("a.png", priority=5)  # type: ignore[call-arg]


def test_what_the_caller_leaves_out_is_not_written() -> None:
    @task
    def resize(image: str, size: Size = Size(1), *, colour: str = "grey") -> str:
        return f"{image} {size.width} {colour}"

    assert resize.request("a").new.payload == '{"image":"a"}'
    assert resize.run('{"image":"a"}') == '"a 1 grey"'
    assert resize.request("a", colour="x").new.payload == '{"image":"a","colour":"x"}'


def test_arguments_by_position_alone_and_any_others_by_name() -> None:
    def put(key: str, /, *more: int, when: datetime, **sizes: Size) -> list[Any]:
        return [key, more, when.year, {name: size.width for name, size in sizes.items()}]

    payload = Task(put).request("k", when=NOON, small=Size(1), big=Size(9)).new.payload
    assert json.loads(Task(put).run(payload) or "") == ["k", [], 2026, {"small": 1, "big": 9}]
    with pytest.raises(InvalidRequest, match=r"arguments for .\*args. cannot be enqueued"):
        Task(put).request("k", 1, when=NOON)
    with pytest.raises(InvalidRequest, match="'key'"):
        Task(put).request("k", when=NOON, key=Size(1))
    with pytest.raises(WrongArguments, match=r"at `big\.width`"):
        Task(put).run('{"key":"k","when":"2026-01-01T00:00:00","big":{"width":"x"}}')


def test_keyword_arguments_may_have_types_of_their_own() -> None:
    def put(**settings: Unpack[Settings]) -> str:
        return f"{settings['size'].width} {settings['at'].year}"

    assert Task(put).run(Task(put).request(size=Size(4), at=NOON).new.payload) == '"4 2026"'


def test_annotations_that_cannot_be_read_are_an_error_before_anything_runs() -> None:
    @task
    def hidden(words: Counter[str]) -> None: ...

    @task
    def ambiguous(what: Size | Point | Money | Path) -> None: ...

    with pytest.raises(ConfigError, match=r"task hidden cannot .* is not defined; the names"):
        registry_of(hidden)
    with pytest.raises(ConfigError, match=r"task ambiguous, annotation of `what`: Type unions may"):
        registry_of(ambiguous)
    with pytest.raises(ConfigError, match="cannot be read"):
        hidden.request({})  # type: ignore[arg-type]


def test_a_class_that_nobody_has_registered_is_refused() -> None:
    class Strange: ...

    def put(value: Any) -> None: ...

    put.__annotations__ = {"value": Strange}
    with pytest.raises(
        InvalidRequest, match=r"Strange cannot be written as JSON; register the type"
    ):
        Task(put).request(Strange())
    with pytest.raises(
        WrongArguments, match=r"JSON cannot be converted to .*Strange; register the type"
    ):
        Task(put).run('{"value":{}}')
    with pytest.raises(
        ConfigError, match=r"task put, annotation of `value`: JSON cannot .*Strange; register"
    ):
        registry_of(Task(put))


def test_a_worker_starts_with_classes_that_some_payload_fits() -> None:
    class Session: ...

    class Named(Protocol): ...

    def put(a: Money, b: Path, c: Hashable, d: Session | None, e: Named) -> None: ...
    def take(size: int, session: Session | None = None, *sizes: Session) -> None: ...

    for function in (put, take):
        function.__annotations__ = get_type_hints(function, localns=locals())
        registry_of(Task(function))


# -- versions ----------------------------------------------------------------------------------


def in_cents(arguments: dict[str, Any], version: int) -> dict[str, Any]:
    if version < 2:
        arguments["cents"] = 100 * arguments.pop("euros")
    return arguments | {"currency": "EUR"}


@task(version=3, migrate=in_cents)
def pay(cents: int, currency: str, **more: int) -> str:
    return f"{cents} {currency} {more}"


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ('{"euros":2}', '"200 EUR {}"'),
        ('{"$version":1,"euros":2,"x":3}', """"200 EUR {'x': 3}\""""),
        ('{"$version":2,"cents":7}', '"7 EUR {}"'),
        ('{"$version":3,"cents":7,"currency":"CHF"}', '"7 CHF {}"'),
    ],
)
def test_a_payload_of_an_older_version_is_migrated(payload: str, result: str) -> None:
    assert pay.run(payload) == result


def test_a_producer_writes_the_version_of_its_task() -> None:
    assert pay.request(7, "CHF").new.payload == '{"$version":3,"cents":7,"currency":"CHF"}'


def test_a_schedule_has_the_version_of_its_task() -> None:
    def nightly(scheduled_time: datetime) -> None: ...

    time = "{scheduled_time}"
    assert Task(nightly).parameters.schedule_payload({}) == f'{{"scheduled_time":"{time}"}}'
    of_version = Task(nightly, version=2, migrate=in_cents, cron="0 3 * * *").parameters
    assert of_version.schedule_payload({}) == f'{{"$version":2,"scheduled_time":"{time}"}}'


def test_a_payload_of_a_newer_version_is_tried_later() -> None:
    def first(image: str, **more: int) -> None: ...

    for old in (pay, Task(first)):
        with pytest.raises(Retry, match="has version 4, but this worker has only version"):
            old.run('{"$version":4,"what":"ever"}')


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ('"x"', r"^\$version of the payload: "),
        ("null", r"^\$version of the payload: "),
        ("2", "cents"),
    ],
)
def test_a_payload_whose_version_is_not_right_is_refused(version: str, error: str) -> None:
    with pytest.raises(WrongArguments, match=error):
        pay.run(f'{{"$version":{version}}}')


@pytest.mark.parametrize("settings", [{"version": 0}, {"version": 2}, {"migrate": in_cents}])
def test_a_version_needs_a_migration_and_the_other_way_round(settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"task plain: version is [012]; "):

        @task("plain", **settings)
        def plain() -> None: ...


def test_a_result_has_the_defaults_of_what_the_task_got() -> None:
    @task
    def pack(
        box: Box, more: list[dict[str, Box]], pair: tuple[Size, ...], shape: Size | int = 0
    ) -> Any:
        return [box, more, pair, shape]

    small = {"size": {"width": 1}}
    payload = {"box": small | {"inner": small}, "more": [{"a": small}], "pair": [{"width": 2}]}
    full = {"size": {"width": 1, "height": 3}, "inner": None}
    assert json.loads(pack.run(json.dumps(payload)) or "") == [
        full | {"inner": full}, [{"a": full}], [{"width": 2, "height": 3}], 0,
    ]  # fmt: skip
