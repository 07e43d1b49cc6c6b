"""The values that cross the store's border: plain, immutable, no I/O."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import NamedTuple

from rowlease.errors import InvalidRequest

#: Bytes of JSON text a payload may have; the routines hold the same number.
MAX_PAYLOAD_BYTES = 1_048_576
#: A queue's own maximum may be set anywhere below this; 255 fits RabbitMQ's range.
MAX_PRIORITY = 255


class Outcome(StrEnum):
    """What a routine answers for one request. Expected, so a value and never an exception."""

    OK = "ok"
    #: The same token (or receipt, or load id) has been through already; nothing was done again.
    REPEAT = "repeat"
    #: The lease was broken: somebody else owns the request, or may.
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    #: A live request with this dedup key exists; its id is returned, nothing was added.
    DUPLICATE = "duplicate"
    #: The queue is full; the id is the place among those that wait.
    FULL = "full"
    #: The running task is asked to stop.
    CANCEL_REQUESTED = "cancel_requested"
    #: Somebody is finishing the request at this moment.
    BUSY = "busy"


#: What a value may be, and the advice for whoever gives another.
Wanted = tuple[tuple[type, ...], str]
DURATION: Wanted = (timedelta, NoneType), "it must be a timedelta; write timedelta(seconds=5) or so"
TEXT: Wanted = (str, NoneType), "it must be text"
#: The same for each field of a request.
FIELDS: dict[str, Wanted] = {
    "kind": ((str,), "it must be text: the name of a task"),
    "payload": ((str,), "it must be JSON text; rowlease.client.new_request takes values"),
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


def check_type(name: str, value: object, wanted: Wanted) -> None:
    """Refuse a value of a wrong type.

    Raises:
        InvalidRequest: it is one; the sentence says what to give.
    """
    kinds, advice = wanted
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise InvalidRequest(f"{name} is {shown(value)}; {advice}")


def shown(value: object) -> str:
    """A short text for a value that was given by mistake, whatever it is."""
    return reprlib.repr(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """What a producer may say of a request.

    Args:
        kind: name of the task that is to run, 1 to 200 characters.
        payload: JSON text, at most `MAX_PAYLOAD_BYTES` bytes of UTF-8.
        priority: 0 or more, bigger is more urgent; clamped to the queue's maximum.
        delay: how long from now, by the database's clock, until it may run.
        due_time: the same as an instant (with time zone); a past one means now.
        dedup_key: at most one live request of a queue has it.
        group_key: requests of a group run one at a time, in the order they were enqueued.
        max_attempts: None takes the queue's.
        retry_base: first back-off step; None takes the queue's.

    Raises:
        InvalidRequest: one of them has another type.
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
        for name, wanted in FIELDS.items():
            if (value := getattr(self, name)).__class__ not in wanted[0]:
                check_type(name, value, wanted)  # it may still be of a subclass


class Enqueued(NamedTuple):
    """The answer to one enqueued request: `ok`, `duplicate` or `repeat`.

    `full` answers a whole call that may wait; `request_id` then is the waiter's id.
    """

    request_id: int | None
    outcome: Outcome


class LeasedRequest(NamedTuple):
    """A request as leased, in the column order of the routine `dequeue`."""

    request_id: int
    queue_name: str
    kind: str
    priority: int
    requested_time: datetime
    due_time: datetime
    locked_time: datetime
    lock_expires_time: datetime
    #: The fencing token: larger at each claim of the request by a random step, never reset. Below
    #: 2^53 for a million claims, so that JSON holds it exactly.
    lock_token: int
    #: 1-based: this is the n-th attempt.
    num_attempts: int
    max_attempts: int
    num_crashes: int
    group_key: str | None
    load_id: str | None
    #: JSON text, byte for byte as enqueued.
    payload: str


class Claim(NamedTuple):
    """What one dequeue brought.

    Attributes:
        requests: leased, in claim order; may be fewer than asked for, or none.
        more: ask again at once; a short answer alone does not mean an empty queue.
        wait: until the next scheduled request is due or a lease runs out; None if none is.
        floor: hand it in with the next dequeue; opaque.
    """

    requests: list[LeasedRequest]
    more: bool
    wait: timedelta | None
    floor: str | None


class Held(NamedTuple):
    """A lease as its holder names it."""

    request_id: int
    lock_token: int


class Failure(NamedTuple):
    """What a worker reports of a failed attempt.

    Attributes:
        error: text, stored as last_error (cut at 8,000 characters).
        after: wait at least this long; None takes the queue's back-off.
        dead: make it a dead letter whatever attempts are left.
    """

    error: str
    after: timedelta | None = None
    dead: bool = False


class Renewal(NamedTuple):
    """The answer to one renewed lease: `ok`, `cancel_requested`, `busy`, or it is lost."""

    request_id: int
    outcome: Outcome
    lock_expires_time: datetime | None


class Exchanged(NamedTuple):
    """What one exchange brought: the outcomes in the order given, and the claim.

    Attributes:
        dead: of those that failed, which are dead letters now.
    """

    completed: list[Outcome]
    failed: list[Outcome]
    dead: list[bool]
    claim: Claim


class Explanation(NamedTuple):
    """Why a request is not being taken: one word for programs, one sentence for people."""

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
    """One count that was wrong, because somebody changed rows by hand, and was put right.

    Attributes:
        counter: `scheduled`, `pending`, `processing` or `failed`; or `group_blocked`, of requests
            that waited for one of their group that is gone.
        was: what the count was.
        actual: what it is now.
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
        next_time: the first firing that was not fired; None if nobody has planned one.
        changed_time: its firings are counted from there, where none is planned.
        claimed_time: the database's time, by which firings are due.
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
    """What one claim of schedules brought; `wait`: until there may be more, None if there is none.

    A schedule that is made, changed or resumed meanwhile may be due before that.
    """

    due: list[DueSchedule]
    wait: timedelta | None


class Schedule(NamedTuple):
    """A schedule as it stands, in the column order of the routine `list_schedules`."""

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
    """A request as it stands, in the column order of the routine `list_requests`."""

    request_id: int
    queue_name: str
    kind: str
    status: str
    priority: int
    due_time: datetime
    dedup_key: str | None
    group_key: str | None
    num_attempts: int
    #: JSON text; None where a finished request's was dropped.
    payload: str | None
    last_error: str | None
    result: str | None


class QueueState(NamedTuple):
    """A queue as it stands, in the column order of the routine `list_queues`.

    Attributes:
        num_finished: requests completed so far; it only ever grows.
        num_failures: attempts that failed so far.
        oldest: how long the request that was due first has been waiting; None: nothing waits.
    """

    queue_name: str
    paused: bool
    num_finished: int
    num_failures: int
    oldest: timedelta | None


class WorkerState(NamedTuple):
    """A worker as its last heartbeat says, in the column order of the routine `list_workers`.

    Attributes:
        silent: since the last heartbeat; they come every 5 s.
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
