"""Reads the status and the result of one request, cancels it and requeues it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Generic

from rowlease.backoff import Backoff
from rowlease.client.call_threads import CallThreads
from rowlease.errors import NoResult
from rowlease.filters.filter import Filter
from rowlease.model import DURATION, Outcome, Request, Step, check_type
from rowlease.store import Store
from rowlease.store.shared_listener import SharedListener
from rowlease.tasks.requests import R_co

FINISHED = ("Complete", "Failed", "Cancelled")
#: The pause in seconds between reads if there are notifications. Reads are still needed, because a
#: notification may be lost.
NOTIFIED_READ_SECONDS = 2.0
#: The maximum number of reads per second by all waiting handles of a store. If many handles wait,
#: their pauses are longer.
READS_A_SECOND = 200


@dataclass(frozen=True, slots=True)
class Handle(Generic[R_co]):
    """One request. `enqueue` and `Client.get` return handles.

    `cancel` and `requeue` need the rights of rowlease_operator; the other methods need those of
    rowlease_reader. No method sees a request before the transaction that enqueued it is committed.

    A database that was restored, or failed over without its last commits, assigns ids again. So a
    handle that `enqueue` returned compares the time at which its request was enqueued: to its
    methods, another request with the same id does not exist. A handle of `Client.get` means the
    request that has the id when a method is called.

    Attributes:
        request_id: the id of the request.
        outcome: `ok` if the call that returned this handle enqueued the request. `duplicate` if a
            live request already had the dedup key; `request_id` is the id of that request, or 0
            if it has just been finished. `repeat` if an earlier call with the same receipt, or an
            earlier try of the same call, enqueued the request. None if the handle is from
            `Client.get`.
    """

    request_id: int
    outcome: Outcome | None
    _requested_time: datetime | None = field(compare=False, repr=False)
    _store: Store = field(compare=False, repr=False)
    _decode: Callable[[str | None], R_co] = field(compare=False, repr=False)

    def status(self) -> str | None:
        """The status: Scheduled, Pending, Processing, Complete, Failed or Cancelled.

        Failed means a dead letter. The status is None if the request does not exist, because its
        transaction is not committed or it was purged.
        """
        found = self.read()
        return found.status if found else None

    def read(self) -> Request | None:
        """The request with its payload, attempts, error and result; None if it does not exist."""
        found = self._store.get_request(self.request_id)
        return None if self._is_another(found) else found

    def _read_for_result(self) -> Request | None:
        found = self._store.get_request(self.request_id)
        if self._is_another(found):
            raise NoResult(self.request_id, None, is_another=True)
        return found

    def _is_another(self, found: Request | None) -> bool:
        """Whether the request that was found by the id is not the request of this handle."""
        return found is not None and self._requested_time not in (None, found.requested_time)

    def result(self, timeout: timedelta | None = None) -> R_co:
        """Wait until the request is complete, and return the result of its task.

        On PostgreSQL the call waits for a notification. All waiting calls of a client share one
        connection. Without notifications (on SQL Server, or through a proxy that pools connections)
        the call polls, first after 20 ms, later once a second. If more than 200 calls wait, each
        polls less often.

        Args:
            timeout: the longest time to wait; None means no limit.

        Returns:
            The result, converted to the task's return annotation. None if the queue's setting
            `keep_history` is false, because then results are not kept.

        Raises:
            NoResult: the request is a dead letter, was cancelled, or does not exist; or another
                request has its id now.
            TimeoutError: the request did not finish within `timeout`.
            WrongArguments: the result does not fit the annotation.
            StoreError: the database cannot be reached, or refuses access (AccessDenied).
        """
        wait = _ResultWait(timeout, self._store.finished)
        found = self._read_for_result()
        while wait.goes_on(found):
            with self._store.finished.expecting(str(self.request_id)) as notified:
                found = self._read_for_result()
                if seconds := wait.pause(found):
                    notified.wait(seconds)
        return self._value(found, timeout)

    async def result_in(self, threads: CallThreads, timeout: timedelta | None) -> R_co:  # noqa: ASYNC109
        """The same as `result`: calls are made in `threads`, pauses in the event loop."""
        wait = _ResultWait(timeout, self._store.finished)
        found = await threads.call(self._read_for_result)
        while wait.goes_on(found):
            with self._store.finished.expecting(str(self.request_id)) as notified:
                found = await threads.call(self._read_for_result)
                if seconds := wait.pause(found):
                    await notified.wait_in_loop(seconds)
        return self._value(found, timeout)

    def _value(self, found: Request | None, timeout: timedelta | None) -> R_co:
        if found is not None and _is_unfinished(found):
            raise TimeoutError(
                f"request {self.request_id} is not finished after {timeout}: it is {found.status}; "
                f"`rowlease requests explain {self.request_id}` shows why"
            )
        if found is None or found.status != "Complete":
            raise NoResult(
                self.request_id,
                found and found.status,
                found.last_error if found else None,
                cancelled_by=found.cancelled_by if found else None,
            )
        return self._decode(found.result)

    def cancel(self, *, kill: bool = False) -> Outcome:
        """Cancel the request if it is not running; otherwise ask its task to stop.

        The worker is notified. A coroutine is cancelled where it awaits. For other tasks,
        `current().should_stop` becomes true; a child process that has not ended its task after the
        worker's `cancel_grace` (10 s) is killed. `read` tells who has cancelled the request, and
        when.

        Args:
            kill: whether to leave the task no time.

        Returns:
            `ok` if the request is cancelled; `cancel_requested` if its task is running and was
            asked to stop; `not_found` if it is complete, already cancelled, or does not exist.
        """
        arguments = {"kill": True} if kill else None
        return _outcome(self._store.operate("cancel", arguments=arguments, **self._filter()))

    def requeue(self) -> Outcome:
        """Make a dead letter wait again, with the same id.

        A finished request can be enqueued again as a new one:
        `client.requests.requeue(ids=[...]).first[0].new_request_id` is its id.

        Returns:
            `ok`; `not_found` if the request is not a dead letter; `duplicate` if a live request has
            its dedup key.
        """
        dead_letter: Filter = {**self._filter(), "status": "Failed"}
        return _outcome(self._store.operate("requeue", **dead_letter))

    def _filter(self) -> Filter:
        """Selects the request, and no other one that has its id."""
        if self._requested_time is None:
            return {"ids": [self.request_id]}
        time = self._requested_time
        return {"ids": [self.request_id], "since": time, "until": time}


def _outcome(step: Step) -> Outcome:
    return step.touched[0].outcome if step.touched else Outcome.NOT_FOUND


def _is_unfinished(found: Request | None) -> bool:
    return found is not None and found.status not in FINISHED


class _ResultWait:
    """The pauses between the reads of one wait for a result.

    Raises:
        InvalidRequest: the timeout is not a timedelta.
    """

    def __init__(self, timeout: timedelta | None, finished: SharedListener) -> None:
        check_type("timeout", timeout, DURATION)
        self._ends = inf if timeout is None else time.monotonic() + timeout.total_seconds()
        self._finished = finished
        self._pauses = Backoff(0.02, 1.0)  # without notifications
        self._is_over = timeout == timedelta(0)

    def goes_on(self, found: Request | None) -> bool:
        """Whether there is another read."""
        return _is_unfinished(found) and not self._is_over

    def pause(self, found: Request | None) -> float:
        """The longest time in seconds until the next read; 0 if there is none."""
        left = self._ends - time.monotonic()
        self._is_over = left <= 0
        if not self.goes_on(found):
            return 0
        look = NOTIFIED_READ_SECONDS if self._finished.is_listening else next(self._pauses)
        return min(left, max(look, self._finished.num_waiting / READS_A_SECOND))
