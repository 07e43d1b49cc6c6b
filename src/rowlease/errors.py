"""The exceptions of rowlease.

Most classes use their docstring as the default message. The hierarchy, with the meaning and the
exit code of each class::

    RowleaseError
    ├── ConfigError            wrong settings or arguments        exit code 2
    ├── InvalidRequest         wrong arguments of an enqueue      exit code 2
    │   ├── WrongArguments     a payload does not fit its task    exit code 2
    │   ├── WrongFilter        the text of a filter is wrong      exit code 2
    │   └── LoadDiffers        a load has more or fewer rows than expected  exit code 2
    ├── NoResult               a request is a dead letter, or was cancelled
    ├── UnknownTask            no task is registered for a kind   exit code 2
    ├── QueueFull              the queue is at its capacity       exit code 4
    ├── LeaseLost              a completion in your transaction failed
    └── StoreError             the driver's exception is __cause__
        ├── StoreUnavailable   no connection; transient           exit code 3
        │   └── StoreTimeout   no answer in time; transient       exit code 3
        ├── EnqueueUnknown     perhaps enqueued; has a receipt    exit code 3
        ├── StoreConflict      a deadlock or a similar conflict; transient
        ├── LoadLost           another run has taken the load over
        ├── SchemaMismatch     the schema is missing, too old or too new  exit code 3
        ├── AccessDenied       the role lacks a grant             exit code 3
        └── RoutineError       a routine refused its arguments

    Retry, Snooze, DeadLetter  raised by tasks to decide the outcome of an attempt
    SoftTimeLimitExceeded      raised by the worker in a task
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar


class RowleaseError(Exception):
    """rowlease could not do what was asked."""

    exit_code: ClassVar[int] = 1
    #: The operation of `client.requests` that this error interrupted; None if no step was done.
    #: `client.requests.resume` continues the operation.
    operation_id: int | None = None

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


class WrongFilter(InvalidRequest):
    """The text of a filter is wrong. The message shows the text, and points at the wrong part.

    Attributes:
        start, end: the place of the wrong part in the text, in characters from 0.
        reason: what is wrong.
    """

    def __init__(self, text: str, start: int, end: int, reason: str) -> None:
        cut = max(0, start - 60)
        line = "".join(char if char.isprintable() else " " for char in text[cut : cut + 120])
        super().__init__(
            f"the filter is wrong at character {start + 1}: {reason}\n"
            f"  {line}\n  {' ' * (start - cut)}{'^' * max(1, min(end - start, 60))}"
        )
        self.start = start
        self.end = end
        self.reason = reason


class LoadDiffers(InvalidRequest):
    """The load has more or fewer rows than expected; write the load again."""


class NoResult(RowleaseError):
    """The request has no result.

    Attributes:
        request_id: the id of the request.
        status: `Failed` (a dead letter), `Cancelled`, or None if there is no such request.
        error: the last error of the request; None if there is none.
        is_another: whether another request has the id now.
    """

    def __init__(
        self,
        request_id: int,
        status: str | None,
        error: str | None = None,
        *,
        is_another: bool = False,
        cancelled_by: str | None = None,
    ) -> None:
        by = f" by {cancelled_by}" if cancelled_by else ""
        why = {
            None: "it does not exist: its transaction is not committed, or it was purged",
            "Failed": "it is a dead letter",
            "Cancelled": f"it was cancelled{by}",
        }[status]
        if is_another:
            why = (
                "another request has this id now, because the database lost its last commits and "
                "assigned the id again; enqueue the request again"
            )
        last = f": {error.splitlines()[0]}" if error else ""
        super().__init__(f"request {request_id} has no result: {why}{last}")
        self.request_id = request_id
        self.status = status
        self.error = error
        self.is_another = is_another


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
        outcome: `lease_lost` if the lease was broken, so that another worker may own the request;
            `repeat` if the same attempt has already completed the request; `not_found` if there is
            no such request.
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
    """The database did not answer in time; it is not known whether the call took effect."""

    maybe_done = True


class EnqueueUnknown(StoreError):
    """It is not known whether the requests were enqueued; enqueue them again with the receipt.

    Args:
        receipt: the key of the call. Within a day, `enqueue(receipt=...)` with the same arguments
            repeats the call: it enqueues the requests only once, and returns their ids.
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
    """Another run has taken over this load; the rows of this run are ignored."""


class SchemaMismatch(StoreError):
    """This version does not work with the database's schema; run `rowlease migrate`."""

    exit_code = 3


class AccessDenied(StoreError):
    """The database role lacks a privilege; grant it one of the rowlease roles."""

    exit_code = 3


class RoutineError(StoreError):
    """A routine refused its arguments."""

    exit_code = 2


class Retry(Exception):
    """A task raises this to try the request again later.

    Args:
        reason: the string to store as the request's last error.
        after: the time until the next attempt; None means the usual back-off.
    """

    def __init__(
        self, reason: str = "the task asked for a retry", *, after: timedelta | None = None
    ):
        super().__init__(reason, after)
        self.reason = reason
        self.after = None if after is None else _duration(after)


class Snooze(Exception):
    """A task raises this to have its request run again later. No attempt is counted.

    The number of snoozes of a request has no limit.

    Args:
        after: the time until the request is due again, at least a second.
        reason: the text to store in the table `attempt`. `explain` shows it.
    """

    def __init__(self, after: timedelta, reason: str = "") -> None:
        super().__init__(after, reason)
        self.after = _duration(after)
        self.reason = reason


def _duration(after: timedelta) -> timedelta:
    """The argument, which must be a timedelta: the traceback then has the line of the task."""
    if not isinstance(after, timedelta):
        raise TypeError(
            f"after is {after!r}; it must be a timedelta, for example timedelta(seconds=5)"
        )
    return after


class DeadLetter(Exception):
    """A task raises this to make the request a dead letter, which is not tried again.

    Args:
        reason: the string to store as the request's last error.
    """

    def __init__(self, reason: str = "the task made it a dead letter") -> None:
        super().__init__(reason)
        self.reason = reason


class SoftTimeLimitExceeded(Exception):
    """Raised by the worker in a task at its soft time limit, so that the task can clean up."""
