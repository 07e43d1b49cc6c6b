"""Requests before they are enqueued, and the options that a producer may set."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypedDict, TypeVar, Unpack, cast

from rowlease.errors import InvalidRequest
from rowlease.model import DURATION, FIELD_TYPES, MAX_PRIORITY, NewRequest, check_type, short_repr
from rowlease.tasks import codec, headers

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T", bound=Mapping[str, object])

#: The queue of a request if neither its task nor its producer names a queue.
DEFAULT_QUEUE = "default"


class RequestOptions(TypedDict, total=False):
    """The options of one request. An option that is missing or None has its default.

    Keys:
        queue: the name of the queue. The default is the queue of the task, or "default".
        priority: 0 or more; bigger is more urgent. Values above the queue's maximum are lowered to
            it. The default is the priority of the task, or 0.
        delay: the time from now, by the database's clock, until the request may run.
        due_time: the time, with a time zone, from which the request may run. A past time means now.
        dedup_key: a key that at most one live request of a queue may have.
        group_key: the name of a group, whose requests run one at a time, in the order of enqueuing.
        max_attempts, retry_base: the same as in `TaskSettings`.
        expires: the time from now, by the database's clock, after which the request is not started
            any more: a worker that claims it later cancels it. A request that has started is tried
            again as usual.
        headers: strings that travel beside the payload, for example a tenant or a trace. A task
            reads them as `current().headers`. At most 8 KiB of JSON.
    """

    queue: str | None
    priority: int | None
    delay: timedelta | None
    due_time: datetime | None
    dedup_key: str | None
    group_key: str | None
    max_attempts: int | None
    retry_base: timedelta | None
    expires: timedelta | None
    headers: Mapping[str, str] | None


class CallOptions(TypedDict, total=False):
    """The options of one enqueue call.

    Keys:
        wait: the time to wait for room if the queue is full. Waiting producers are admitted by
            priority, and first in, first out within a priority. A bound producer refuses this
            option, because no transaction may be open during the wait.
        receipt: a string of 1 to 100 characters that identifies this call, or the receipt of an
            EnqueueUnknown. Calls with the same receipt within a day enqueue once, and return the
            same ids. None means a new random receipt.
        batch_id: the id of a batch, which these requests join. A batch that is finished takes no
            more requests.
        after: the id of a batch or a load. The requests become due when it is finished; until
            then they are Scheduled. They must not have a `delay` or `due_time`.
    """

    wait: timedelta | None
    receipt: str | None
    batch_id: str | None
    after: str | None


class Options(RequestOptions, CallOptions, total=False):
    """The options of a call that enqueues one request: those of the request and of the call."""


CALL_OPTIONS = frozenset(CallOptions.__annotations__)
REQUEST_OPTIONS = CALL_OPTIONS | RequestOptions.__annotations__.keys()


class ForEnqueueMany:
    """What `enqueue_many` takes. Who enqueues it as in another library is told how it is done."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker refuses both itself

        def __getattr__(self, name: str) -> NoReturn:
            what = type(self).__name__
            raise AttributeError(f"a {what} has no {name!r}; use client.enqueue_many([...])")

        def __call__(self, *_: object, **__: object) -> NoReturn:
            what = type(self).__name__
            raise TypeError(f"a {what} cannot be called; use client.enqueue_many([...])")


@dataclass(frozen=True, slots=True)
class TaskRequest(ForEnqueueMany, Generic[R_co]):
    """A request that can be enqueued; made by `task.request(...)` or `untyped_request`.

    Attributes:
        queue: the name of the queue.
        new: the other columns of the request.
        decode: a function that converts the JSON text of the result to a value.
    """

    queue: str
    new: NewRequest
    decode: Callable[[str | None], R_co] = field(compare=False, repr=False)


def untyped_request(
    kind: str, payload: Any = None, /, **options: Unpack[RequestOptions]
) -> TaskRequest[Any]:
    """A request for a task that this program cannot import.

    Only the worker compares the payload with the task's parameters. If the payload does not fit,
    the request becomes a dead letter.

    Args:
        kind: the name of the task.
        payload: a mapping of the arguments by name, to be written as a JSON object.

    Raises:
        InvalidRequest: the payload is no mapping, cannot be written as JSON or is too large, or an
            option is wrong.
    """
    try:
        text = "{}" if payload is None else codec.encode(payload)
    except ValueError as error:
        raise InvalidRequest(f"the payload {error}") from error
    if not text.startswith("{"):
        raise InvalidRequest(
            f"the payload is {short_repr(payload)}; it must be a mapping of arguments by name"
        )
    check_names(options, RequestOptions.__annotations__)
    return make_request(kind, text, decode_plain, cast("Options", options))


def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names differ.

    Raises:
        InvalidRequest: a name comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"the payload names {twice!r} twice; give each argument one value")
    return found


def make_request(
    kind: str, payload: str, decode: Callable[[str | None], R_co], options: Options
) -> TaskRequest[R_co]:
    """A request with these values. The options of a call are ignored.

    Raises:
        InvalidRequest: one of the values is wrong.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in options.items()
        if value is not None and name not in CALL_OPTIONS
    }
    queue = given.pop("queue", DEFAULT_QUEUE)
    check_type("queue", queue, ((str,), "it must be a string: the name of a queue"))
    priority = given.pop("priority", 0)
    check_type("priority", priority, FIELD_TYPES["priority"])
    if priority < 0:
        raise InvalidRequest(
            f"priority is {priority}; it must be 0 or more, and bigger is more urgent"
        )
    expires = expiry(given.pop("expires", None))
    if "headers" in given or expires:
        own = given.get("headers", {})
        both = {**own, **expires} if isinstance(own, Mapping) else own
        given["headers"] = headers.encode_headers(both)
    # A larger number would not fit into the column.
    new = NewRequest(kind=kind, payload=payload, priority=min(priority, MAX_PRIORITY), **given)
    if new.delay is not None and new.due_time is not None:
        raise InvalidRequest("the request has both delay and due_time; give one of them")
    for name, duration in (("delay", new.delay), ("retry_base", new.retry_base)):
        if duration is not None and duration < timedelta(0):
            raise InvalidRequest(f"{name} is {duration}; it must not be negative")
    if new.due_time is not None and new.due_time.tzinfo is None:
        raise InvalidRequest("due_time has no time zone; give one, such as timezone.utc")
    return TaskRequest(queue, new, decode)


def expiry(expires: timedelta | None) -> dict[str, str]:
    """The header of a request that may not start any more after this time.

    Raises:
        InvalidRequest: it is not a timedelta above 0.
    """
    check_type("expires", expires, DURATION)
    if expires is None:
        return {}
    if expires <= timedelta(0):
        raise InvalidRequest(f"expires is {expires}; it must be positive")
    return {headers.EXPIRES_HEADER: str(expires.total_seconds())}


def check_names(options: T, names: Collection[str]) -> T:
    """These options, after a check of their names.

    Raises:
        TypeError: an option is not in `names`.
    """
    for name in options:
        if name not in names:
            options_are = ", ".join(sorted(names))
            raise TypeError(f"there is no option {name!r}; the options are: {options_are}")
    return options


def decode_plain(result: str | None) -> Any:
    """The result as plain JSON values."""
    return None if result is None else json.loads(result)
