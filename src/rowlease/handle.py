"""The handle of a request, which reads its status and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, repeat
from typing import Generic

from rowlease.errors import NoResult, StoreError
from rowlease.model import DURATION, Outcome, Request, check_type
from rowlease.requests import R_co
from rowlease.store import Notifications, Store

FINISHED = ("Complete", "Failed", "Cancelled")
#: The pauses in seconds between the first reads of a handle that listens. The request may have
#: finished just before the handle listened.
LOOKS = (0.0, 0.02, 0.2)
#: The pause in seconds between later reads: a notification may have been lost.
LOOK = 2.0
#: The first pause in seconds between reads if there are no notifications. It doubles each time.
FIRST_POLL = 0.02
#: The longest pause in seconds between reads if there are no notifications.
LAST_POLL = 1.0


@dataclass(frozen=True, slots=True)
class Handle(Generic[R_co]):
    """One request. `enqueue` and `Client.get` return handles.

    `cancel` and `requeue` need the rights of rowlease_operator; the other methods need those of
    rowlease_reader. No method sees a request before its transaction is committed.

    Attributes:
        request_id: the id of the request.
        outcome: `ok` if this call enqueued the request. `duplicate` if a live request already has
            the dedup key; `request_id` is the id of that request. `repeat` if an earlier call with
            the same receipt, or an earlier try of this call, enqueued the request. None if the
            handle is from `Client.get`.
    """

    request_id: int
    outcome: Outcome | None
    _store: Store = field(compare=False, repr=False)
    _decode: Callable[[str | None], R_co] = field(compare=False, repr=False)

    def status(self) -> str | None:
        """Scheduled, Pending, Processing, Complete, Failed (a dead letter) or Cancelled.

        None if the request does not exist, because it is not committed or was purged.
        """
        found = self.read()
        return found.status if found else None

    def read(self) -> Request | None:
        """All columns of the request; None if it does not exist."""
        return self._store.get_request(self.request_id)

    def result(self, timeout: timedelta | None = None) -> R_co:
        """Wait until the request is complete, and return what the task returned.

        On PostgreSQL the call opens a connection and waits for a notification. On other databases
        it polls, first after 20 ms, later once a second.

        Args:
            timeout: the longest time to wait; None means no limit.

        Returns:
            The result, converted to the task's return annotation; None if `keep_history` is off for
            the queue.

        Raises:
            NoResult: the request is a dead letter, was cancelled, or does not exist.
            TimeoutError: the request did not finish within `timeout`.
            WrongArguments: the result does not fit the annotation.
            StoreError: the database cannot be reached, or refuses access (AccessDenied).
        """
        check_type("timeout", timeout, DURATION)
        ends = None if timeout is None else time.monotonic() + timeout.total_seconds()
        for found in self._looks(ends):
            if found is None or found.status in FINISHED:
                break
        else:
            raise TimeoutError(f"request {self.request_id} is not finished after {timeout}")
        if found is None or found.status != "Complete":
            raise NoResult(
                self.request_id, found and found.status, found.last_error if found else None
            )
        return self._decode(found.result)

    def cancel(self) -> Outcome:
        """Cancel the request if it does not run, or ask it to stop.

        Returns:
            `ok` if the request is cancelled; `cancel_requested` if it runs and was asked to stop;
            `not_found` if it is complete, already cancelled, or does not exist.
        """
        (outcome,) = self._store.cancel([self.request_id])
        return outcome

    def requeue(self) -> Outcome:
        """Make a dead letter wait again.

        Returns:
            `ok`; `not_found` if the request is not a dead letter; `duplicate` if a live request has
            its dedup key.
        """
        (answer,) = self._store.requeue([self.request_id])
        return answer.outcome

    def _looks(self, ends: float | None) -> Iterator[Request | None]:
        """The request now, and again each time it may have changed, until the time `ends`."""
        yield self.read()
        if ends is not None and time.monotonic() >= ends:
            return
        with ExitStack() as exits:
            notifications: Notifications | None = None
            if self._store.can_notify:
                with suppress(StoreError):
                    notifications = exits.enter_context(
                        closing(self._store.listen_finished(self.request_id))
                    )
            for pause in chain(LOOKS, repeat(LOOK)) if notifications else polls():
                left = pause if ends is None else min(pause, ends - time.monotonic())
                if left < 0:
                    return
                if notifications is None:
                    time.sleep(left)
                else:
                    try:
                        notifications.wait(timedelta(seconds=left))
                    except Exception:
                        notifications = None  # the connection failed: poll from now on
                yield self.read()


def polls() -> Iterator[float]:
    """The pauses in seconds between reads if there are no notifications."""
    pause = FIRST_POLL
    while True:
        yield pause
        pause = min(LAST_POLL, 2 * pause)
