"""Requests as producers make them: what to run, and the options of running it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from rowlease import codec
from rowlease.errors import InvalidRequest
from rowlease.model import FIELDS, MAX_PRIORITY, NewRequest, check_type

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T", bound=Mapping[str, object])

#: The queue of requests for which neither the task nor the producer names one.
DEFAULT_QUEUE = "default"


class RequestOptions(TypedDict, total=False):
    """The options of one request; what is left out, or None, is the task's or the queue's.

    Keys:
        queue: where it waits. Default: the task's, else "default".
        priority: 0 or more, bigger is more urgent; clamped to the queue's maximum. Default: the
            task's, else 0.
        delay: it may run so long from now, by the database's clock.
        due_time: it may run from this time on (with time zone); a past one means now.
        dedup_key: at most one live request of a queue has it.
        group_key: requests of a group run one at a time, in the order they were enqueued.
        max_attempts, retry_base: see `TaskSettings`.
    """

    queue: str | None
    priority: int | None
    delay: timedelta | None
    due_time: datetime | None
    dedup_key: str | None
    group_key: str | None
    max_attempts: int | None
    retry_base: timedelta | None


class CallOptions(TypedDict, total=False):
    """The options of one call that enqueues.

    Keys:
        wait: how long to wait for room if the queue is full. The highest priority is admitted
            first, FIFO among equals. No transaction is open meanwhile, so a bound producer refuses
            it.
        receipt: of an EnqueueUnknown, or any text of 1 to 100 characters that names this call:
            calls with the same receipt within a day enqueue once, and return the same ids. None
            makes up a new one.
    """

    wait: timedelta | None
    receipt: str | None


class Options(RequestOptions, CallOptions, total=False):
    """The options of a call that enqueues one request: `RequestOptions` and `CallOptions`."""


CALL_OPTIONS = frozenset(CallOptions.__annotations__)
OPTIONS = CALL_OPTIONS | RequestOptions.__annotations__.keys()


@dataclass(frozen=True, slots=True)
class TaskRequest(Generic[R_co]):
    """A request that can be enqueued: `resize.request("a.png", width=200)`, or `untyped_request`.

    Attributes:
        queue: where it will wait.
        new: its other columns.
        decode: makes a value of the JSON text of its result.
    """

    queue: str
    new: NewRequest
    decode: Callable[[str | None], R_co] = field(compare=False, repr=False)


def untyped_request(
    kind: str, payload: Any = None, /, **options: Unpack[RequestOptions]
) -> TaskRequest[Any]:
    """A request for a task whose code is not here: written in another language, for example.

    Nothing compares the payload with the task's parameters before a worker does: a request that
    does not fit becomes a dead letter.

    Args:
        kind: the name of the task.
        payload: what becomes JSON: an object has arguments by name, a list by position.

    Raises:
        InvalidRequest: the payload is not JSON or too large, or an option is wrong.
    """
    try:
        text = "{}" if payload is None else codec.encode(payload)
    except ValueError as error:
        raise InvalidRequest(f"the payload {error}") from error
    return made(kind, text, plain, known(options, RequestOptions.__annotations__))


def made(
    kind: str, payload: str, decode: Callable[[str | None], R_co], options: RequestOptions
) -> TaskRequest[R_co]:
    """A request of these values, which are checked.

    Raises:
        InvalidRequest: one of them is wrong.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    queue = given.pop("queue", DEFAULT_QUEUE)
    check_type("queue", queue, ((str,), "it must be text: the name of a queue"))
    priority = given.pop("priority", 0)
    check_type("priority", priority, FIELDS["priority"])
    if priority < 0:
        raise InvalidRequest(
            f"priority is {priority}; it must be 0 or more, and bigger is more urgent"
        )
    # Larger numbers would not fit the column.
    new = NewRequest(kind=kind, payload=payload, priority=min(priority, MAX_PRIORITY), **given)
    if new.due_time is not None and new.due_time.tzinfo is None:
        raise InvalidRequest("due_time has no time zone; write datetime.now(timezone.utc) or so")
    return TaskRequest(queue, new, decode)


def known(options: T, names: Collection[str]) -> T:
    """These options, whose names are checked as those of arguments are.

    Raises:
        TypeError: there is no option of that name.
    """
    for name in options:
        if name not in names:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(sorted(names))}")
    return options


def plain(result: str | None) -> Any:
    """The JSON values of a result."""
    return None if result is None else json.loads(result)
