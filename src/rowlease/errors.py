"""The exceptions of rowlease.

The docstring of each class is its default message, so the documentation shows the message::

    RowleaseError
    ├── ConfigError            wrong settings or arguments        exit code 2
    ├── InvalidRequest         a request the queue cannot accept  exit code 2
    │   └── WrongArguments     a payload does not fit its task    exit code 2
    ├── NoResult               a request is a dead letter, or was cancelled
    ├── UnknownTask            no task is registered for a kind   exit code 2
    ├── QueueFull              the queue is at its capacity       exit code 4
    ├── LeaseLost              not completed in this transaction: roll it back
    └── StoreError             the driver's exception is __cause__
        ├── StoreUnavailable   no connection; transient           exit code 3
        │   └── StoreTimeout   no answer in time; transient       exit code 3
        ├── EnqueueUnknown     perhaps enqueued; has a receipt    exit code 3
        ├── StoreConflict      deadlock victim and the like; transient
        ├── LoadLost           another run has taken the load over
        ├── SchemaMismatch     the schema is missing, old or too new  exit code 3
        ├── AccessDenied       the role lacks a grant             exit code 3
        └── RoutineError       a routine refused its arguments

    Retry, DeadLetter          raised by tasks: signals to the worker, not errors of rowlease
    SoftTimeLimitExceeded      raised in tasks, by the worker
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar


class RowleaseError(Exception):
    """rowlease could not do what was asked."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(RowleaseError):
    """A setting or argument is wrong."""

    exit_code = 2


class InvalidRequest(RowleaseError):
    """The request cannot be accepted as it is."""

    exit_code = 2


class WrongArguments(InvalidRequest):
    """The payload does not fit the parameters of the task; another attempt would not help."""


class NoResult(RowleaseError):
    """The request has no result, and will have none.

    Attributes:
        request_id: its id.
        status: `Failed` (a dead letter), `Cancelled`, or None if there is no such request.
        error: its last error, with a traceback; None if it has none.
    """

    def __init__(self, request_id: int, status: str | None, error: str | None = None) -> None:
        why = {
            None: "there is none: its transaction is not committed, or it was purged",
            "Failed": "it is a dead letter",
            "Cancelled": "it was cancelled",
        }[status]
        last = f": {error.splitlines()[0]}" if error else ""
        super().__init__(f"request {request_id} has no result: {why}{last}")
        self.request_id = request_id
        self.status = status
        self.error = error


class UnknownTask(RowleaseError):
    """No task is registered under this kind."""

    exit_code = 2


class QueueFull(RowleaseError):
    """The queue has reached its capacity; nothing was enqueued."""

    exit_code = 4


class LeaseLost(RowleaseError):
    """The request is not completed in this transaction; roll the transaction back.

    Attributes:
        request_id: the first request that was not completed.
        outcome: `lease_lost`: the lease was broken, and another worker may own the request;
            `repeat`: the same attempt has already completed it; `not_found`: there is no such
            request.
    """

    def __init__(self, request_id: int, outcome: str) -> None:
        super().__init__(
            f"request {request_id} was not completed ({outcome}): {WHY_NOT[outcome]}; "
            "roll this transaction back"
        )
        self.request_id = request_id
        self.outcome = outcome


WHY_NOT = {
    "lease_lost": "its lease was lost, and another worker may own it",
    "repeat": "this attempt has already completed it",
    "not_found": "this database holds no such request",
}


class StoreError(RowleaseError):
    """The database refused or failed a call."""

    #: True if the same call may succeed when it is repeated.
    transient: ClassVar[bool] = False
    #: True if the call failed but may have taken effect.
    maybe_done: bool = False


class StoreUnavailable(StoreError):
    """The database cannot be reached."""

    exit_code = 3
    transient = True


class StoreTimeout(StoreUnavailable):
    """The database did not answer in time; whether the call took effect is not known."""

    maybe_done = True


class EnqueueUnknown(StoreError):
    """It is not known whether the requests were enqueued; enqueue them again with the receipt.

    Args:
        receipt: for `enqueue(receipt=...)`, within a day: requests that were enqueued are not
            enqueued twice, and their ids are returned.
    """

    exit_code = 3
    maybe_done = True

    def __init__(self, message: str | None = None, *, receipt: str) -> None:
        super().__init__(
            message
            or "it is not known whether the requests were enqueued; enqueue them again with "
            f"receipt={receipt!r}: that enqueues them once"
        )
        self.receipt = receipt


class StoreConflict(StoreError):
    """The database aborted this call because of a conflict; repeat it."""

    transient = True


class LoadLost(StoreError):
    """Another run has taken this load over; rows of this run do not count."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one this version works with; run `rowlease migrate`."""

    exit_code = 3


class AccessDenied(StoreError):
    """The database role lacks a privilege; grant it one of the rowlease roles."""

    exit_code = 3


class RoutineError(StoreError):
    """A routine refused its arguments."""


class Retry(Exception):
    """Raised by a task: try this request again later.

    Args:
        reason: what is stored as the request's last error.
        after: how long to wait; None takes the queue's back-off.
    """

    def __init__(
        self, reason: str = "the task asked for a retry", *, after: timedelta | None = None
    ):
        super().__init__(reason, after)
        self.reason = reason
        self.after = after


class DeadLetter(Exception):
    """Raised by a task: never try this request again; it becomes a dead letter.

    Args:
        reason: what is stored as the request's last error.
    """

    def __init__(self, reason: str = "the task made it a dead letter") -> None:
        super().__init__(reason)
        self.reason = reason


class SoftTimeLimitExceeded(Exception):
    """Raised in a task that runs past its soft time limit, so that it can clean up and end."""
