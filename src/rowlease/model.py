"""The values that a store takes and returns; they are immutable and do no I/O."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import NamedTuple

from rowlease.errors import InvalidRequest

#: Bytes of JSON text that a payload may have; the routines check the same limit.
MAX_PAYLOAD_BYTES = 1_048_576
#: A queue's own maximum may be set anywhere below this; 255 fits RabbitMQ's range.
MAX_PRIORITY = 255


class Outcome(StrEnum):
    """How a call ended for one request. Each is expected, so it is a value and not an exception."""

    OK = "ok"
    #: A call with the same token (or receipt, or load id) was done before; this one did nothing.
    REPEAT = "repeat"
    #: The lease was broken: another worker may own the request.
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    #: A live request with this dedup key exists; its id is returned, and none was added.
    DUPLICATE = "duplicate"
    #: The queue is full; the id is that of a waiting producer.
    FULL = "full"
    #: The running task is asked to stop.
    CANCEL_REQUESTED = "cancel_requested"
    #: Another transaction is finishing the request at this moment.
    BUSY = "busy"


#: The types that a value may have, and the advice in the error if it has another.
TypeRule = tuple[tuple[type, ...], str]
DURATION: TypeRule = (
    (timedelta, NoneType),
    "it must be a timedelta; write timedelta(seconds=5) or so",
)
TEXT: TypeRule = (str, NoneType), "it must be text"
#: The same for each field of a request.
FIELDS: dict[str, TypeRule] = {
    "kind": ((str,), "it must be text: the name of a task"),
    "payload": ((str,), "it must be JSON text; rowlease.untyped_request takes values"),
    "priority": ((int,), "it must be an integer of 0 or more"),
    "delay": DURATION,
    "due_time": (
        (datetime, NoneType),
        "it must be a datetime; write datetime.now(timezone.utc) or so",
    ),
    "dedup_key": TEXT,
    "group_key": TEXT,
    "max_attempts": ((int, NoneType), "it must be an integer of 1 or more"),
    "retry_base": DURATION,
}


def check_type(name: str, value: object, rule: TypeRule) -> None:
    """Refuse a value of a wrong type.

    Raises:
        InvalidRequest: the type is wrong; the message says what to give.
    """
    kinds, advice = rule
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise InvalidRequest(f"{name} is {shown(value)}; {advice}")


def shown(value: object) -> str:
    """A short text for any value, for an error message."""
    return reprlib.repr(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """A request as a producer describes it.

    Args:
        kind: the name of the task, 1 to 200 characters.
        payload: JSON text, at most `MAX_PAYLOAD_BYTES` bytes of UTF-8.
        priority: 0 or more, bigger is more urgent; clamped to the queue's maximum.
        delay: the time from now until it is due, by the database's clock.
        due_time: when it is due (with time zone); a past time means now.
        dedup_key: at most one live request of a queue has it.
        group_key: requests of a group run one at a time, in the order they were enqueued.
        max_attempts: None takes the queue's.
        retry_base: the first back-off; None takes the queue's.

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

    def __post_init__(self) -> None:
        for name, rule in FIELDS.items():
            if (value := getattr(self, name)).__class__ not in rule[0]:
                check_type(name, value, rule)  # a subclass is accepted


class Enqueued(NamedTuple):
    """The answer to one enqueued request: `ok`, `duplicate` or `repeat`.

    `full` answers a whole call that may wait; `request_id` then is the waiter's id.
    """

    request_id: int | None
    outcome: Outcome


class LeasedRequest(NamedTuple):
    """A leased request, in the column order of the routine `dequeue`."""

    request_id: int
    queue_name: str
    kind: str
    priority: int
    requested_time: datetime
    due_time: datetime
    locked_time: datetime
    lock_expires_time: datetime
    #: The fencing token: each claim raises it by a random step, and it is never reset. It stays
    #: below 2^53 for a million claims, so that JSON holds it exactly.
    lock_token: int
    #: Counted from 1, this attempt included.
    num_attempts: int
    max_attempts: int
    num_crashes: int
    group_key: str | None
    load_id: str | None
    #: JSON text, byte for byte as enqueued.
    payload: str


class Claim(NamedTuple):
    """The result of one claim.

    Attributes:
        requests: the leased requests in claim order; there may be fewer than asked for, or none.
        more: whether to claim again at once. Few requests do not mean that the queue is empty.
        wait: the time until a scheduled request is due or a lease runs out; None if there is none.
        floor: an opaque value for the next `dequeue`; None if no floor is in force.
    """

    requests: list[LeasedRequest]
    more: bool
    wait: timedelta | None
    floor: str | None


class Held(NamedTuple):
    """A lease, as a worker names it in a call."""

    request_id: int
    lock_token: int


class Failure(NamedTuple):
    """A failed attempt, as a worker reports it.

    Attributes:
        error: stored as last_error (cut at 8,000 characters).
        after: wait at least this long; None takes the queue's back-off.
        dead: make it a dead letter, even if attempts are left.
    """

    error: str
    after: timedelta | None = None
    dead: bool = False


class Renewal(NamedTuple):
    """The answer to the renewal of one lease; it is kept if `ok`, `cancel_requested` or `busy`."""

    request_id: int
    outcome: Outcome
    lock_expires_time: datetime | None


class Exchanged(NamedTuple):
    """The result of one exchange: the outcomes in the order given, and the claim.

    Attributes:
        dead: for each of `failed`, whether the request became a dead letter.
    """

    completed: list[Outcome]
    failed: list[Outcome]
    dead: list[bool]
    claim: Claim


class Explanation(NamedTuple):
    """Why a request is not claimed: a word for programs and a sentence for people."""

    reason: str
    words: str


class Depth(NamedTuple):
    """How many requests of one queue and priority are in each status."""

    queue_name: str
    priority: int
    scheduled: int
    pending: int
    processing: int
    failed: int


class Corrected(NamedTuple):
    """One count that was wrong, because rows were changed by hand, and was corrected.

    Attributes:
        counter: `scheduled`, `pending`, `processing` or `failed`; or `group_blocked`, of requests
            that waited for a request of their group that no longer exists.
        was: the count before.
        actual: the count now.
    """

    queue_name: str
    priority: int
    counter: str
    was: int
    actual: int


class Promoted(NamedTuple):
    """The answer to a promoted load: `ok`, or `repeat` with the first call's counts."""

    outcome: Outcome
    num_rows: int
    num_enqueued: int
    num_duplicates: int


class Maintained(NamedTuple):
    """One step of housekeeping that did something."""

    what: str
    num_rows: int


class DueSchedule(NamedTuple):
    """A schedule as leased, in the column order of the routine `claim_schedules`.

    Attributes:
        next_time: the first firing that is still to come; None if none is computed yet.
        changed_time: firings count from this time if next_time is None.
        claimed_time: the database's time at the claim, by which firings are due.
    """

    schedule_name: str
    cron: str
    time_zone: str
    catch_up: int
    next_time: datetime | None
    changed_time: datetime
    lock_token: int
    claimed_time: datetime


class ScheduleClaim(NamedTuple):
    """The result of one claim of schedules.

    Attributes:
        wait: the time until the next schedule may be due; None if there is none. A schedule that
            is made, changed or resumed meanwhile may be due earlier.
    """

    due: list[DueSchedule]
    wait: timedelta | None


class Schedule(NamedTuple):
    """A schedule, in the column order of the routine `list_schedules`."""

    schedule_name: str
    cron: str
    time_zone: str
    queue_name: str
    kind: str
    payload: str
    priority: int
    catch_up: int
    paused: bool
    next_time: datetime | None
    last_time: datetime | None
    last_request_id: int | None
    changed_time: datetime


class Request(NamedTuple):
    """A request, in the column order of the routines `list_requests` and `get_request`."""

    request_id: int
    queue_name: str
    kind: str
    status: str
    priority: int
    due_time: datetime
    dedup_key: str | None
    group_key: str | None
    num_attempts: int
    #: JSON text; None if it was dropped when the request finished.
    payload: str | None
    last_error: str | None
    result: str | None


class QueueState(NamedTuple):
    """A queue, in the column order of the routine `list_queues`.

    Attributes:
        num_finished: requests completed so far; it never decreases.
        num_failures: attempts that failed so far.
        oldest: how long the request that was due first has waited; None if nothing waits.
    """

    queue_name: str
    paused: bool
    num_finished: int
    num_failures: int
    oldest: timedelta | None


class WorkerState(NamedTuple):
    """A worker as of its last heartbeat, in the column order of the routine `list_workers`.

    Attributes:
        silent: the time since the last heartbeat; a worker sends one every 5 s.
    """

    worker_id: str
    host: str
    pid: int
    version: str
    queue_names: tuple[str, ...]
    slots: int
    busy: int
    consumer_priority: int
    started_time: datetime
    silent: timedelta
