"""The database's reports about its state: findings, explanations, measurements and workers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple


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
    """The reason why a request is not claimed: `reason` for programs, `message` for people."""

    reason: str
    message: str


class Metric(NamedTuple):
    """One measurement of the routines `metrics` and `metrics_server`, in their column order.

    Attributes:
        metric: the name of the measurement.
        subject: the queue, the schedule or the table; empty if there is none.
    """

    metric: str
    subject: str
    value: float


class Maintained(NamedTuple):
    """A step of housekeeping, and the number of rows that it changed.

    Attributes:
        error: the text of the error of a step that failed and changed nothing.
    """

    what: str
    num_rows: int
    error: str | None = None


class Advanced(NamedTuple):
    """A sequence that would have handed out ids again, and was advanced.

    Attributes:
        was: the id that it would have handed out.
        next_id: the id that it hands out next.
    """

    sequence_name: str
    was: int
    next_id: int

    def __str__(self) -> str:
        return (
            f"the sequence {self.sequence_name} would have handed out ids again, as after a "
            f"replication or a restore; it was advanced from {self.was} to {self.next_id}"
        )


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
