"""The arguments and results of a store's methods. They are immutable and do no I/O."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import NamedTuple

from rowlease.errors import InvalidRequest

#: The maximum size of a payload, in bytes of JSON text. The routines have the same limit.
MAX_PAYLOAD_BYTES = 1_048_576
#: The maximum size of a request's headers, in bytes of JSON text. The routines have the same limit.
MAX_HEADERS_BYTES = 8_192
#: The highest priority that any queue may allow: the same as RabbitMQ's.
MAX_PRIORITY = 255


class Outcome(StrEnum):
    """How a call ended for one request. Outcomes are expected, so they are not exceptions."""

    OK = "ok"
    #: An earlier call had the same token, receipt or load id. This call did nothing.
    REPEAT = "repeat"
    #: The lease was broken, so another worker may own the request.
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    #: A live request already has the dedup key. Its id is returned, and nothing was enqueued.
    DUPLICATE = "duplicate"
    #: The queue is full. The id is the producer's place in line.
    FULL = "full"
    #: The request is running, and its task is asked to stop.
    CANCEL_REQUESTED = "cancel_requested"
    #: Another transaction is finishing the request at this moment.
    BUSY = "busy"


#: The types that a value may have, and the advice in the error for other types.
TypeRule = tuple[tuple[type, ...], str]
DURATION: TypeRule = (
    (timedelta, NoneType),
    "it must be a timedelta, for example timedelta(seconds=5)",
)
TEXT: TypeRule = (str, NoneType), "it must be a string"
#: The type rule of each field of a request.
FIELDS: dict[str, TypeRule] = {
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
        raise InvalidRequest(f"{name} is {shown(value)}; {advice}")


def shown(value: object) -> str:
    """A short representation of any value, for an error message."""
    return reprlib.repr(value)


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
        for name, rule in FIELDS.items():
            if (value := getattr(self, name)).__class__ not in rule[0]:
                check_type(name, value, rule)  # a subclass is accepted


class Enqueued(NamedTuple):
    """The answer for one enqueued request: `ok`, `duplicate` or `repeat`.

    A call with `wait` may have the single answer `full`, whose `request_id` is the producer's place
    in line.
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
    #: The fencing token. Each claim raises it by a random number, and it is never reset. After a
    #: million claims of a request it is still below 2^53, so JSON numbers hold it exactly.
    lock_token: int
    #: The number of this attempt; the first is 1.
    num_attempts: int
    max_attempts: int
    num_crashes: int
    group_key: str | None
    load_id: str | None
    #: The JSON text, byte for byte as it was enqueued.
    payload: str
    #: A JSON object of strings, or None.
    headers: str | None = None


class Claim(NamedTuple):
    """The result of one claim.

    Attributes:
        requests: the leased requests in claim order: at most as many as the limit, or none.
        more: true if the worker should claim again at once. A claim may return few requests from a
            queue that has many.
        wait: the time until a scheduled request is due or a lease runs out; None if there is
            neither.
        floor: an opaque value for the next `dequeue`; None if no floor is in force.
    """

    requests: list[LeasedRequest]
    more: bool
    wait: timedelta | None
    floor: str | None


class Held(NamedTuple):
    """A lease, identified by its request and its token."""

    request_id: int
    lock_token: int


class Failure(NamedTuple):
    """A worker's report of a failed attempt.

    Attributes:
        error: the text of the error, for example `ValueError: no`. 8,000 characters are kept as
            `last_error`, and 2,000 characters in the table `attempt`.
        after: the time until the next attempt; None means the usual back-off.
        dead: true to make the request a dead letter even if attempts are left.
        error_type: the name of the exception's class, with its module unless that is `builtins`.
            200 characters are kept. None if there was no exception.
        traceback: the traceback, of which the last 6,000 characters are kept.
    """

    error: str
    after: timedelta | None = None
    dead: bool = False
    error_type: str | None = None
    traceback: str | None = None


class Renewal(NamedTuple):
    """The answer for one lease.

    After `ok`, `cancel_requested` or `busy`, the worker still holds the lease.
    """

    request_id: int
    outcome: Outcome
    lock_expires_time: datetime | None


class Exchanged(NamedTuple):
    """The result of one exchange: the outcomes, in the order of the arguments, and the claim.

    Attributes:
        dead: for each request in `failed`, true if it became a dead letter.
    """

    completed: list[Outcome]
    failed: list[Outcome]
    dead: list[bool]
    claim: Claim


class Finding(NamedTuple):
    """Something that is wrong: `finding` is for programs, `message` and `action` are sentences.

    Attributes:
        subject: the queue, schedule, table or session.
    """

    finding: str
    subject: str
    message: str
    action: str


class Explanation(NamedTuple):
    """Why a request is not claimed: `reason` is for programs, `message` for people."""

    reason: str
    message: str


class Depth(NamedTuple):
    """The number of requests in each status, for one queue and priority."""

    queue_name: str
    priority: int
    scheduled: int
    pending: int
    processing: int
    failed: int


class Corrected(NamedTuple):
    """A count that was wrong, because rows were changed by hand, and has been corrected.

    Attributes:
        counter: `scheduled`, `pending`, `processing`, `failed` or `group_blocked`. The last counts
            requests that waited for a request of their group that no longer exists.
        was: the count before the correction.
        actual: the correct count.
    """

    queue_name: str
    priority: int
    counter: str
    was: int
    actual: int


class Begun(NamedTuple):
    """A run of a load that may write rows.

    Attributes:
        run_number: the fencing token, for each row and each further call.
        max_priority: the queue's maximum priority; a row's priority must not be larger.
    """

    run_number: int
    max_priority: int


class Promoted(NamedTuple):
    """The answer to `promote`: `ok`, or `repeat` with the counts of the first call.

    Attributes:
        num_duplicates: the number of rows that were not enqueued, because a live request or an
            earlier row of the load has the same dedup key.
        num_clamped: the number of rows whose priority was lowered to the queue's maximum.
    """

    outcome: Outcome
    num_rows: int
    num_enqueued: int
    num_duplicates: int
    num_clamped: int = 0


class Maintained(NamedTuple):
    """A step of housekeeping, and the number of rows that it changed."""

    what: str
    num_rows: int


class DueSchedule(NamedTuple):
    """A leased schedule, in the column order of the routine `claim_schedules`.

    Attributes:
        next_time: the time of the next firing; None if it has not been computed yet. If it
            is None, the schedule next fires at the first matching time after `changed_time`.
        changed_time: the time at which the schedule was created, changed or resumed.
        claimed_time: the time of the claim, by the database's clock. Firings up to then are due.
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
        wait: the time until the next schedule may be due; None if there is no schedule. A schedule
            that is created, changed or resumed after the claim may be due earlier.
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
    headers: str | None


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
    attempts: tuple[Attempt, ...]


class Found(NamedTuple):
    """The return value of `Client.find`.

    Attributes:
        requests: the requests, the newest first. There may be none although `after` is not None.
        after: the argument `after` of the next call; None if there are no more requests.
    """

    requests: list[Request]
    after: int | None


class Touched(NamedTuple):
    """What a step of an operation did to a request, or in a dry run would do.

    Attributes:
        outcome: `ok`; `cancel_requested` if it runs and is asked to stop; `duplicate` if a live
            request has its dedup key; `not_found` if its payload was not kept for a requeue.
        new_request_id: the new request, if a finished one was requeued.
    """

    request_id: int
    outcome: Outcome
    new_request_id: int | None


class Step(NamedTuple):
    """A step of an operation.

    Attributes:
        operation_id: the operation, in the view `operations`; None in a dry run.
        after: where the next step goes on; None if nothing is left.
    """

    touched: list[Touched]
    operation_id: int | None
    after: int | None


class QueueState(NamedTuple):
    """A queue, in the column order of the routine `list_queues`.

    Attributes:
        num_finished: the number of requests completed so far. It never decreases.
        num_failures: the number of failed attempts so far.
        oldest: the longest time that a waiting request has been due; None if no request waits.
    """

    queue_name: str
    paused: bool
    num_finished: int
    num_failures: int
    oldest: timedelta | None


class WorkerState(NamedTuple):
    """A worker at its last heartbeat, in the column order of the routine `list_workers`.

    Attributes:
        silent: the time since the last heartbeat. A worker sends one every 5 s.
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


class NextRequest(NamedTuple):
    """A request that a claim takes soon, in the column order of the routine `list_ready`.

    Attributes:
        place: its place in the order of claims; 1 is the next.
        waiting_seconds: the time since it was due.
    """

    place: int
    request_id: int
    kind: str
    priority: int
    due_time: datetime
    waiting_seconds: int


class Lease(NamedTuple):
    """The lease of a running request, in the column order of the routine `list_leases`.

    Attributes:
        started_time: when its task began; None if it waits for a slot.
        left_seconds: the time until the lease ends; below 0 if it has run out.
    """

    queue_name: str
    request_id: int
    kind: str
    priority: int
    locked_by: str
    locked_time: datetime
    started_time: datetime | None
    lock_expires_time: datetime
    left_seconds: int
    num_attempts: int
    max_attempts: int
    cancel_requested: bool


class DeadLetterGroup(NamedTuple):
    """Dead letters of a queue and a kind with the same first line of their error.

    The fields have the column order of the routine `list_dead_letters`.

    Attributes:
        num_requests: how many there are among the 10,000 that were enqueued last.
        first_time, last_time: when the first and the last of them failed for good.
        last_request_id: the one that was enqueued last.
    """

    queue_name: str
    kind: str
    error_line: str | None
    num_requests: int
    first_time: datetime
    last_time: datetime
    last_request_id: int


class LoadState(NamedTuple):
    """A load, in the column order of the routine `list_loads`.

    Attributes:
        queue_name: the queue; None until the load is named.
        status: `Staging` or `Promoted`.
        run_by: the program that writes or wrote it.
        silent_seconds: the time since its run reported progress; None if it is promoted.
    """

    load_id: str
    queue_name: str | None
    status: str
    run_by: str
    num_rows: int
    num_staged: int
    num_enqueued: int
    num_duplicates: int
    num_clamped: int
    rows_per_second: int | None
    started_time: datetime
    reported_time: datetime
    promoted_time: datetime | None
    silent_seconds: int | None


class OperationState(NamedTuple):
    """What an operator has done, in the column order of the routine `list_operations`.

    Attributes:
        filter: the requests, or the queue, as JSON text.
        actor: who did it, as the caller says; None if the caller does not say.
        login: the database user of the session.
        status: `Open` if it can be resumed, else `Finished`.
    """

    operation_id: int
    verb: str
    filter: str
    arguments: str
    actor: str | None
    login: str
    client_address: str | None
    application: str
    started_time: datetime
    last_time: datetime
    num_requests: int
    status: str


class Waits(NamedTuple):
    """How long requests waited and ran, in the column order of the routine `measure_waits`.

    Attributes:
        queue_name: the queue; None for all queues together.
        num_requests: how many completed requests the percentiles are of.
        wait_p50_ms: the median time from due to claimed; 95 and 99 are further percentiles.
        run_p50_ms: the median time from claimed to completed.
    """

    queue_name: str | None
    num_requests: int
    wait_p50_ms: int
    wait_p95_ms: int
    wait_p99_ms: int
    run_p50_ms: int
    run_p95_ms: int
    run_p99_ms: int


class Metric(NamedTuple):
    """One measurement of the routines `metrics` and `metrics_server`, in their column order.

    Attributes:
        metric: the name of the measurement.
        subject: the queue, the schedule or the table; empty if there is none.
    """

    metric: str
    subject: str
    value: float
