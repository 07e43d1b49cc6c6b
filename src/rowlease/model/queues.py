"""A queue: its counts, its next requests, its dead letters, and how long its requests wait."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import NamedTuple


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
        queue_name: the queue; None for a batch.
        priority: the priority; None for a batch.
        counter: `scheduled`, `pending`, `processing`, `failed` or `group_blocked`. The last counts
            requests that waited for a request of their group that no longer exists. Of a batch,
            `batch_requests`, `batch_live`, `batch_complete` or `batch_failed`.
        was: the count before the correction.
        actual: the correct count.
        batch_id: the batch; None for a queue.
    """

    queue_name: str | None
    priority: int | None
    counter: str
    was: int
    actual: int
    batch_id: str | None = None


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


class NextRequest(NamedTuple):
    """A request that will be claimed soon, in the column order of the routine `list_ready`.

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


class DeadLetterGroup(NamedTuple):
    """Dead letters of a queue and a kind whose errors differ in digits alone.

    The fields have the column order of the routine `list_dead_letters`.

    Attributes:
        error_pattern: the first line of their error, with `#` for each run of digits, cut to 200
            characters. The key `pattern` of a filter takes it.
        num_requests: the number of them among the 10,000 newest dead letters.
        first_time, last_time: the times at which the first and the last of them failed for good.
        last_request_id: the id of the newest of them.
    """

    queue_name: str
    kind: str
    error_pattern: str
    num_requests: int
    first_time: datetime
    last_time: datetime
    last_request_id: int


class DayTotals(NamedTuple):
    """The figures of a day, UTC, in the column order of the routine `list_days`.

    Attributes:
        num_finished: the number of requests that were completed.
        num_failures: the number of attempts that failed.
        num_failed: the number of dead letters at the end of the day; of today, now.
    """

    day: date
    num_finished: int
    num_failures: int
    num_failed: int


class KindTotals(NamedTuple):
    """What became of the requests of a kind, in the column order of the routine `list_kinds`.

    Attributes:
        num_failed: the number of dead letters.
        num_failures: the number of attempts that failed.
        wait_p50_ms: the median time from due to claimed; None if none was completed.
        run_p50_ms, run_p95_ms: percentiles of the time from claimed to completed.
    """

    kind: str
    num_complete: int
    num_cancelled: int
    num_failed: int
    num_failures: int
    wait_p50_ms: int | None
    run_p50_ms: int | None
    run_p95_ms: int | None


class Waits(NamedTuple):
    """The waits and runs of requests, in the column order of the routine `measure_waits`.

    Attributes:
        queue_name: the queue; None for all queues together.
        num_requests: the number of completed requests from which the percentiles are computed.
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
