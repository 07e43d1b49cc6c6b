"""Describes the end of an attempt, and converts a task's exception to a `Failure`."""

from __future__ import annotations

import math
import os
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rowlease.errors import DeadLetter, Retry, Snooze, WrongArguments
from rowlease.model import Failure
from rowlease.tasks import task as tasks
from rowlease.tasks.task import Task

if TYPE_CHECKING:
    from rowlease.context import Context

#: The maximum length of an error, in characters.
MAX_ERROR = 2000
#: The maximum length of a reason that a task gives, in characters.
MAX_REASON = 8000
#: The maximum length of a traceback, in characters. A longer traceback loses its beginning, because
#: its end is nearest to the cause.
MAX_TRACEBACK = 6000
#: The longest pause before a retry, in seconds: about ten years. The database cannot store a due
#: time that is too far in the future.
LONGEST_RETRY = 10 * 365 * 86_400.0
#: Tracebacks leave out the frames of this package, which mean nothing to the author of a task.
OWN_FOLDER = os.path.join(os.path.dirname(__file__), "")
#: Tracebacks leave out the frames of this file, too.
TASKS_FILE = tasks.__file__


class Returned(NamedTuple):
    """The task returned; `result` is JSON text."""

    result: str | None


#: The ending of most attempts.
NOTHING = Returned(None)


class NotRun(NamedTuple):
    """The task did not begin: the request was taken back before, or its lease had ended."""


class SnoozeAsked(NamedTuple):
    """The task asked to be run again later."""

    after: timedelta
    reason: str


#: The ending of a task that returned after it had completed or snoozed its request itself. If that
#: transaction was committed, the database answers `repeat`, and the attempt has succeeded. If not,
#: the request must run again, since the effects of the transaction are lost, too. The commit may
#: have been lost after it succeeded, by an asynchronous failover.
NOT_COMMITTED = Failure(
    "the task returned, but the transaction in which it completed or snoozed its request was not "
    "committed"
)


def returned(context: Context, result: str | None) -> Returned | Failure:
    """The ending of a task that returned `result`, as JSON text."""
    if context.has_reported:
        return NOT_COMMITTED
    return NOTHING if result is None else Returned(result)


#: How an attempt ended. `NotRun` means that there was no attempt.
Ending = Returned | Failure | SnoozeAsked | NotRun


def failed(task: Task[..., Any], error: BaseException) -> Failure | SnoozeAsked:
    """Convert an exception that a task raised to a `Failure`, or a `Snooze` to `SnoozeAsked`."""
    # isinstance may run code of the exception (its `__class__`), and that code may raise.
    kind, raised = type(error), cast("Any", error)
    try:
        if issubclass(kind, Retry):
            after = task.retry_pause
            if raised.after is not None:
                after = retry_after(raised.after.total_seconds())
            return described(raised.reason)._replace(after=after)
        if issubclass(kind, Snooze):
            return SnoozeAsked(
                snooze_for(raised.after.total_seconds()), describe(str(raised.reason))
            )
        if issubclass(kind, DeadLetter):
            return described(raised.reason)._replace(dead=True)
        if issubclass(kind, WrongArguments):
            return Failure(describe(str(error)), dead=True)
    except BaseException as worse:
        error = worse
    if task.is_hopeless(error):
        return described(error)._replace(dead=True)
    return described(error)._replace(after=task.retry_pause)


def retry_after(seconds: float) -> timedelta | None:
    """The pause before the next attempt, at most LONGEST_RETRY; None if `seconds` is NaN."""
    if math.isnan(seconds):
        return None
    return timedelta(seconds=min(max(0.0, seconds), LONGEST_RETRY))


def snooze_for(seconds: float) -> timedelta:
    """The pause of a snooze. The database raises a pause of less than a second to a second."""
    return retry_after(seconds) or timedelta(0)


def described(error: object) -> Failure:
    """Convert an exception, or the reason that a task gave, to a `Failure`. Never raises."""
    if not isinstance(error, BaseException):
        return Failure(describe(error))
    try:
        return Failure(
            describe(error),
            error_type=_encodable(_name(type(error))),
            traceback=_encodable(_traceback(error)),
        )
    except BaseException:
        return Failure(describe(error))


def describe(error: object) -> str:
    """The text of an exception, or of the reason that a task gave. Never raises."""
    try:
        if isinstance(error, BaseException):
            text = "".join(traceback.format_exception_only(error)).strip()[:MAX_ERROR]
        else:
            text = str(error)[:MAX_REASON]
        return _encodable(text)
    except BaseException as worse:
        kind = type(error).__name__
        return _encodable(f"{kind} (describing it raised {type(worse).__name__})")


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _traceback(error: BaseException) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next and _is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))[-MAX_TRACEBACK:]


def _is_own(file: str) -> bool:
    return file == TASKS_FILE or file.startswith(OWN_FOLDER)


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
