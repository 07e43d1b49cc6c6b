"""Sends an enqueue call, and repeats it after transient errors and while a queue is full."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import timedelta
from typing import Any

from rowlease.backoff import Backoff
from rowlease.client.call_threads import CallThreads
from rowlease.client.enqueue_call import BatchCall, EnqueueCall
from rowlease.errors import (
    EnqueueUnknown,
    RowleaseError,
    StoreError,
    StoreUnavailable,
)
from rowlease.model import Enqueued, Outcome
from rowlease.store import Store

#: The default time for which a call is repeated after transient errors. Most failovers are shorter.
RETRY_FOR = timedelta(seconds=30)
#: The largest share of `retry_for` that one try may take, so that a try that is never answered
#: leaves time for other tries.
SHARE_OF_A_TRY = 1 / 3
#: No try begins if a smaller share of `retry_for` is left.
MIN_SHARE_LEFT = 1 / 30
#: The longest time in seconds that a producer waits for a notification of room before it tries
#: again: its place in line lasts two seconds, and no notification is sent when an earlier place
#: expires.
MAX_ROOM_WAIT_SECONDS = 1.0
#: The longest time in seconds between two tries if the database sends no notifications.
MAX_WAIT_WITHOUT_NOTIFICATIONS_SECONDS = 0.1


class Sending:
    """One enqueue call, in transactions of its own. All requests are enqueued, or none.

    After a transient error the call is tried again. If the queue is full, the option `wait` says
    for how long it is tried again.

    Args:
        retry_for: the time for which the call is repeated after transient errors.

    Raises:
        The errors of `Client.enqueue`.
    """

    def __init__(
        self, store: Store, call: EnqueueCall[Any] | BatchCall, retry_for: timedelta
    ) -> None:
        self._store = store
        self._call = call
        self._receipt = call.options.get("receipt") or uuid.uuid4().hex
        self._retry_for = retry_for.total_seconds()
        #: True if a try failed but may still have enqueued the requests.
        self._maybe_done = False
        #: The pauses after failed tries; None until one has failed.
        self._pauses: Backoff | None = None

    def send(self) -> list[Enqueued]:
        """The answers, in the order of the requests."""
        wait = self._call.options.get("wait")
        ends = time.monotonic() + (wait or timedelta(0)).total_seconds()
        answers = self._try(wait)
        while _is_full(answers):
            with self._store.room.expecting(self._call.queue) as notified:
                answers = self._try(_left(ends), answers[0].request_id)
                if _is_full(answers):
                    notified.wait(self._pause_for_room(ends))
        return answers

    async def send_in(self, threads: CallThreads) -> list[Enqueued]:
        """The same as `send`: calls are made in `threads`, pauses in the event loop."""
        wait = self._call.options.get("wait")
        ends = time.monotonic() + (wait or timedelta(0)).total_seconds()
        answers = await self._try_in(threads, wait)
        while _is_full(answers):
            with self._store.room.expecting(self._call.queue) as notified:
                answers = await self._try_in(threads, _left(ends), answers[0].request_id)
                if _is_full(answers):
                    await notified.wait_in_loop(self._pause_for_room(ends))
        return answers

    def _try(self, wait: timedelta | None, waiter_id: int | None = None) -> list[Enqueued]:
        ends = time.monotonic() + (self._retry_for or RETRY_FOR.total_seconds())
        while True:
            try:
                return self._attempt(ends, wait, waiter_id)
            except RowleaseError as error:
                pause = self._pause_after(error, ends)
            time.sleep(pause)

    async def _try_in(
        self, threads: CallThreads, wait: timedelta | None, waiter_id: int | None = None
    ) -> list[Enqueued]:
        ends = time.monotonic() + (self._retry_for or RETRY_FOR.total_seconds())
        while True:
            try:
                return await threads.call(self._attempt, ends, wait, waiter_id)
            except RowleaseError as error:
                pause = self._pause_after(error, ends)
            await asyncio.sleep(pause)

    def _attempt(
        self, ends: float, wait: timedelta | None, waiter_id: int | None
    ) -> list[Enqueued]:
        left = ends - time.monotonic()
        if left <= 0:
            raise StoreUnavailable(
                "all threads of the client were busy; make fewer calls at once, or check that the "
                "database answers"
            )
        store = self._store
        if self._retry_for:
            store = store.within(timedelta(seconds=min(left, self._retry_for * SHARE_OF_A_TRY)))
        if isinstance(self._call, BatchCall):
            return self._call.send(store, self._receipt)
        return self._call.send(store, self._receipt, wait=wait, waiter_id=waiter_id)

    def _pause_after(self, error: RowleaseError, ends: float) -> float:
        """The seconds until the next try. Raises an error unless there is one."""
        self._pauses = self._pauses or Backoff(0.1, 2.0)
        pause = next(self._pauses)
        is_over = ends - time.monotonic() - pause < self._retry_for * MIN_SHARE_LEFT
        is_transient = isinstance(error, StoreError) and error.transient
        self._maybe_done |= isinstance(error, StoreError) and error.maybe_done
        if is_transient and self._retry_for and not is_over:
            return pause
        if self._maybe_done:
            # The last try may have been refused, but an earlier one may still take effect.
            raise EnqueueUnknown(
                f"it is not known whether the requests were enqueued ({error}); enqueue them again "
                f"with receipt={self._receipt!r}: that enqueues them once",
                receipt=self._receipt,
            ) from error
        raise error

    def _pause_for_room(self, ends: float) -> float:
        """The longest time until the next try if the queue is full, in seconds."""
        is_listening = self._store.room.is_listening
        longest = MAX_ROOM_WAIT_SECONDS if is_listening else MAX_WAIT_WITHOUT_NOTIFICATIONS_SECONDS
        return min(_left(ends).total_seconds(), next(Backoff(longest, longest)))


def _left(ends: float) -> timedelta:
    return timedelta(seconds=max(0.0, ends - time.monotonic()))


def _is_full(answers: list[Enqueued]) -> bool:
    return bool(answers) and answers[0].outcome is Outcome.FULL
