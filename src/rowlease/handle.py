"""What an enqueue returns: a request that can be asked about."""

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
#: Seconds to the next looks. With notifications, for a request that finished while the handle
#: began to listen, and then for one whose notification is missing.
LOOKS, LOOK = (0.0, 0.02, 0.2), 2.0
#: Without notifications: doubled from the first to the last.
FIRST_POLL, LAST_POLL = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class Handle(Generic[R_co]):
    """A request; `enqueue` returns it, and `Client.get`.

    Its methods need the rights of rowlease_reader, `cancel` and `requeue` those of
    rowlease_operator. They read what is committed: the request of a transaction that is open is
    not there yet.

    Attributes:
        request_id: its id.
        outcome: `ok`; `duplicate`: the id is that of the live request that has the dedup key;
            `repeat`: a call with this receipt, or an earlier try of this one, has enqueued it. None
            from `Client.get`.
    """

    request_id: int
    outcome: Outcome | None
    _store: Store = field(compare=False, repr=False)
    _decode: Callable[[str | None], R_co] = field(compare=False, repr=False)

    def status(self) -> str | None:
        """Scheduled, Pending, Processing, Complete, Failed (a dead letter) or Cancelled.

        None if there is no such request: it was never committed, or was purged.
        """
        found = self.read()
        return found.status if found else None

    def read(self) -> Request | None:
        """All about it: payload, attempts, last error, result as JSON; None as `status`."""
        return self._store.get_request(self.request_id)

    def result(self, timeout: timedelta | None = None) -> R_co:
        """Wait until the request is complete, and return what the task returned.

        On PostgreSQL the database wakes this call, by a notification on a connection of its own;
        elsewhere it looks after 20 ms, and then up to once a second.

        Args:
            timeout: None waits for ever.

        Returns:
            The result as the annotation of the task says; None if its queue has no `keep_history`.

        Raises:
            NoResult: it is a dead letter, was cancelled, or is not there.
            TimeoutError: it is not finished within `timeout`.
            WrongArguments: the result does not fit the annotation.
            StoreError: the database is away, or AccessDenied.
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
        """Cancel it if it waits (`ok`), or ask it to stop if it runs (`cancel_requested`).

        `not_found` if it is finished, or not there.
        """
        (outcome,) = self._store.cancel([self.request_id])
        return outcome

    def requeue(self) -> Outcome:
        """Make a dead letter wait again: `ok`, `not_found`, or `duplicate`: its key is taken."""
        (answer,) = self._store.requeue([self.request_id])
        return answer.outcome

    def _looks(self, ends: float | None) -> Iterator[Request | None]:
        """The request as it is now, and again when it may have changed, until the time is over."""
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
                        notifications = None  # its session was lost: look now and then
                yield self.read()


def polls() -> Iterator[float]:
    """Seconds between looks where no notifications come."""
    pause = FIRST_POLL
    while True:
        yield pause
        pause = min(LAST_POLL, 2 * pause)
