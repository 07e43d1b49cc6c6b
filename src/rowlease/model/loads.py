"""Loads (their runs, their promotion and their state), and batches."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rowlease.model.outcomes import Outcome


class Begun(NamedTuple):
    """A run of a load that may write rows.

    Attributes:
        run_number: the fencing token, for each row and each further call.
        max_priority: the queue's maximum priority; a row's priority must not be larger.
    """

    run_number: int
    max_priority: int


class StreamBatch(NamedTuple):
    """A batch of a stream, which is a load.

    Attributes:
        stream: the unique name of the stream, 1 to 80 characters.
        query_id: the id of the streaming query, which its checkpoint keeps; None if not known.
        number: the number of the batch, from 0.
    """

    stream: str
    query_id: str | None
    number: int

    @property
    def load_id(self) -> str:
        """The id of the load."""
        return f"{self.stream}/{self.number}"


class StreamState(NamedTuple):
    """What a stream has enqueued, in the column order of the routine `list_streams`.

    Attributes:
        query_id: the streaming query; None if not known.
        batch_number: the number of the last batch that was enqueued.
        promoted_time: when that batch was enqueued.
    """

    stream_name: str
    query_id: str | None
    batch_number: int
    promoted_time: datetime


class Forgotten(NamedTuple):
    """The answer to `forget_stream`, in its column order.

    Attributes:
        query_id: the streaming query that the stream belonged to; None if not known.
        batch_number: the number of the last batch that it had enqueued.
        num_loads: the number of loads of the stream that were dropped.
    """

    outcome: Outcome
    query_id: str | None
    batch_number: int | None
    num_loads: int | None


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


class LoadState(NamedTuple):
    """A load, in the column order of the routine `list_loads`.

    Attributes:
        queue_name: the queue; None until the load is named.
        status: `Staging`, `Promoted`, or `Ended` if its job failed or was cancelled.
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
    run_number: int


class BatchState(NamedTuple):
    """A batch and its counts, in the column order of the routine `list_batches`.

    Attributes:
        num_requests: the number of requests that were enqueued.
        num_live: the number of its requests that wait or run.
        num_failed: the number of its requests that are dead letters.
        num_cancelled: the number of its requests that were cancelled or purged.
        finished_time: the time from which none of its requests waited or ran; None before.
    """

    batch_id: str
    num_requests: int
    num_live: int
    num_complete: int
    num_failed: int
    num_cancelled: int
    created_time: datetime
    finished_time: datetime | None
