"""The end of one attempt at a request, as a value, and the text of a task's error."""

from __future__ import annotations

import math
import os
import traceback
from datetime import timedelta
from typing import Any, NamedTuple, cast

from rowlease import tasks
from rowlease.errors import DeadLetter, Retry, WrongArguments
from rowlease.model import Failure
from rowlease.tasks import Task

#: The most characters of `last_error`, and of the message at its beginning.
MAX_ERROR = 8000
MAX_MESSAGE = 2000
#: The longest pause before a retry, in seconds: a due time must be within the database's calendar.
LONGEST_RETRY = 10 * 365 * 86_400.0
#: The files whose frames are left out of tracebacks: they mean nothing to a task's author.
OWN_FOLDER, TASKS_FILE = os.path.join(os.path.dirname(__file__), ""), tasks.__file__


class Returned(NamedTuple):
    """The task returned; `result` is JSON text."""

    result: str | None


class NotRun(NamedTuple):
    """The request was taken back, or its lease was over, before the task began."""


#: The end of an attempt, or `NotRun` if there was none.
Ending = Returned | Failure | NotRun


def failed(task: Task[..., Any], error: BaseException) -> Failure:
    """The failure that an exception of a task stands for."""
    # isinstance would call methods of the exception, which may raise.
    kind, raised = type(error), cast("Any", error)
    try:
        if issubclass(kind, Retry):
            after = None if raised.after is None else retry_after(raised.after.total_seconds())
            return Failure(describe(raised.reason), after)
        if issubclass(kind, DeadLetter):
            return Failure(describe(raised.reason), dead=True)
        if issubclass(kind, WrongArguments):
            return Failure(describe(str(error)), dead=True)
    except BaseException as worse:
        error = worse
    return Failure(describe(error), dead=task.is_hopeless(error))


def retry_after(seconds: float) -> timedelta | None:
    """The pause before the next attempt, within the limits; None if `seconds` is not a number."""
    if math.isnan(seconds):
        return None
    return timedelta(seconds=min(max(0.0, seconds), LONGEST_RETRY))


def describe(error: object) -> str:
    """The text of an exception, or of the reason that a task gave; never raises."""
    try:
        return _encodable(_text(error))
    except BaseException as worse:
        kind = type(error).__name__
        return _encodable(f"{kind} (describing it raised {type(worse).__name__})")


def _text(error: object) -> str:
    if not isinstance(error, BaseException):
        return str(error)[:MAX_ERROR]
    head = "".join(traceback.format_exception_only(error)).strip()[:MAX_MESSAGE]
    trace = error.__traceback__
    while trace and trace.tb_next and _is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    tail = "".join(traceback.format_exception(type(error), error, trace))
    return f"{head}\n\n{tail[-(MAX_ERROR - len(head) - 2) :]}"


def _is_own(file: str) -> bool:
    return file == TASKS_FILE or file.startswith(OWN_FOLDER)


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
