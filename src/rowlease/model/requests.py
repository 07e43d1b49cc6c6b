"""A request before and after it is enqueued, and the answer to an enqueue."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import NamedTuple

from rowlease.errors import InvalidRequest
from rowlease.model.outcomes import Outcome

#: The maximum size of a payload, in bytes of JSON text. The routines have the same limit.
MAX_PAYLOAD_BYTES = 1_048_576
#: The maximum size of a request's headers, in bytes of JSON text. The routines have the same limit.
MAX_HEADERS_BYTES = 8_192
#: The highest priority that any queue may allow: the same as RabbitMQ's.
MAX_PRIORITY = 255
#: The earliest and the latest due time that a request may have. The tables have the same limits.
DUE_TIMES = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
#: The error for other due times.
DUE_RANGE = "a due time is out of range; due times are from year 1 to 9999-12-31 in UTC"
#: The types that a value may have, and the advice in the error for other types.
TypeRule = tuple[tuple[type, ...], str]
DURATION: TypeRule = (
    (timedelta, NoneType),
    "it must be a timedelta, for example timedelta(seconds=5)",
)
TEXT: TypeRule = (str, NoneType), "it must be a string"
#: The type rule of each field of a request.
FIELD_TYPES: dict[str, TypeRule] = {
    "kind": ((str,), "it must be a string: the name of a task"),
    "payload": ((str,), "it must be JSON text; for other values use rowlease.untyped_request"),
    "priority": ((int,), "it must be an integer of 0 or more"),
    "delay": DURATION,
    "due_time": (
        (datetime, NoneType),
        "it must be a datetime, for example datetime.now(timezone.utc)",
    ),
    "dedup_key": TEXT,
    "group_key": TEXT,
    "max_attempts": ((int, NoneType), "it must be an integer of 1 or more"),
    "retry_base": DURATION,
    "headers": ((str, NoneType), "it must be JSON text; for a dict use rowlease.untyped_request"),
}


def check_type(name: str, value: object, rule: TypeRule) -> None:
    """Refuse a value of a wrong type.

    Raises:
        InvalidRequest: the type is wrong. The message has the rule's advice.
    """
    kinds, advice = rule
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise InvalidRequest(f"{name} is {short_repr(value)}; {advice}")


def short_repr(value: object) -> str:
    """A short representation of any value, for an error message."""
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer of thousands of digits has no text
        return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """A request before it is enqueued.

    Args:
        kind: the name of the task, 1 to 200 characters.
        payload: JSON text, at most `MAX_PAYLOAD_BYTES` bytes of UTF-8.
        priority: 0 or more; bigger is more urgent. Values above the queue's maximum are lowered to
            it.
        delay: the time from now, by the database's clock, until the request is due.
        due_time: the time, with a time zone, at which the request is due. A past time means now.
        dedup_key: a key that at most one live request of a queue may have.
        group_key: the name of a group, whose requests run one at a time, in the order of enqueuing.
        max_attempts: the maximum number of attempts; None means the queue's setting.
        retry_base: the first back-off; None means the queue's setting.
        headers: JSON text, an object of strings, at most `MAX_HEADERS_BYTES` bytes of UTF-8.

    Raises:
        InvalidRequest: an argument has a wrong type.
    """

    kind: str
    payload: str = "{}"
    priority: int = 0
    delay: timedelta | None = None
    due_time: datetime | None = None
    dedup_key: str | None = None
    group_key: str | None = None
    max_attempts: int | None = None
    retry_base: timedelta | None = None
    headers: str | None = None

    def __post_init__(self) -> None:
        for name, rule in FIELD_TYPES.items():
            if (value := getattr(self, name)).__class__ not in rule[0]:
                check_type(name, value, rule)  # a subclass is accepted


class Enqueued(NamedTuple):
    """The answer for one enqueued request: `ok`, `duplicate` or `repeat`.

    A call with `wait` may have the single answer `full`, whose `request_id` is the producer's place
    in line.

    Attributes:
        requested_time: when the request was enqueued; None if it is gone. Together with the id, it
            names the request also after the database has been restored and assigns ids again.
    """

    request_id: int | None
    outcome: Outcome
    requested_time: datetime | None = None


class Attempt(NamedTuple):
    """An attempt that did not complete its request, with the columns of the table `attempt`.

    Attributes:
        attempt_number: the number of the attempt; the first is 1, also after a requeue.
        worker_id: the worker that had the lease.
        started_time: the time of the claim, or the later start that the worker reported.
        outcome: `failed`, `lease_lost` (the lease ran out), `abandoned` or `snoozed`.
        error: the same as in `Failure`; the reason of a snooze; None if the attempt was abandoned.
        error_type, traceback: the same as in `Failure`.
    """

    attempt_number: int
    worker_id: str
    started_time: datetime
    ended_time: datetime
    outcome: str
    error: str | None
    error_type: str | None
    traceback: str | None


class Request(NamedTuple):
    """A request, in the column order of the routine `get_request`.

    Attributes:
        locked_by: the worker that runs the request, or has completed it.
        attempts: the newest ten attempts that did not complete the request, the oldest first.
            Attempts that were given up before the task began are left out.
        cancel_time: when the request was cancelled, or its worker was asked to stop it; None if
            neither has happened. While its `status` is Processing, its task still runs.
        cancelled_by: who did so: the operator's name, or else the database user.
        progress: how much of a running attempt is done, from 0 to 1, and
        progress_note: a text, as its task has last reported them (`current().progress`).
    """

    request_id: int
    queue_name: str
    kind: str
    status: str
    priority: int
    due_time: datetime
    dedup_key: str | None
    group_key: str | None
    num_attempts: int
    #: The JSON text; None if the payload was dropped when the request finished.
    payload: str | None
    #: The error of the last attempt, or the reason why the request is a dead letter.
    last_error: str | None
    result: str | None
    max_attempts: int
    requested_time: datetime
    locked_by: str | None
    locked_time: datetime | None
    completion_time: datetime | None
    load_id: str | None
    #: A JSON object of strings, or None.
    headers: str | None
    #: The id of the finished request that an operator requeued as this request, or None.
    requeued_from: int | None
    attempts: tuple[Attempt, ...]
    cancel_time: datetime | None
    cancelled_by: str | None
    progress: float | None = None
    progress_note: str | None = None


class Found(NamedTuple):
    """The return value of `Client.find`.

    Attributes:
        requests: the requests, the newest first. There may be none although `after` is not None.
        after: the argument `after` of the next call; None if there are no more requests.
    """

    requests: list[Request]
    after: int | None
