"""Sends enqueue calls: retries them after transient errors, and waits for room."""

from __future__ import annotations

import random
import time
import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from rowlease.client.enqueue_call import EnqueueCall
from rowlease.client.steps import Steps, call, pause
from rowlease.errors import EnqueueUnknown, RowleaseError, StoreError, StoreUnavailable
from rowlease.model import Enqueued, Outcome
from rowlease.store import Store

#: The default time for which a call is repeated after transient errors. Most failovers are shorter.
RETRY_FOR = timedelta(seconds=30)
#: The largest share of `retry_for` that one try may take, so that a try that is never answered
#: leaves time for other tries.
SHARE_OF_A_TRY = 1 / 3
#: No try begins if a smaller share of `retry_for` is left.
SHORTEST_SHARE = 1 / 30
#: The pause in seconds before the second try. It doubles before each further try, and up to half
#: of each pause is taken off at random.
FIRST_RETRY_PAUSE = 0.1
#: The longest pause in seconds between two tries.
LONGEST_RETRY_PAUSE = 2.0
#: The longest time in seconds that a producer waits for a notification of room before it tries
#: again: its place in line lasts two seconds, and no notification is sent when an earlier place
#: expires.
LONGEST_WAIT_FOR_ROOM = 1.0
#: The longest time in seconds between two tries if the database sends no notifications.
LONGEST_WAIT_WITHOUT_NOTIFICATIONS = 0.1


def send(store: Store, request: EnqueueCall[Any], retry_for: timedelta) -> Steps[list[Enqueued]]:
    """Enqueue all requests or none. The answers are in the order of the requests.

    Args:
        retry_for: the time for which the call is repeated after transient errors.

    Raises:
        The errors of `Client.enqueue`.
    """
    attempts = _Attempts(store, request, retry_for)
    wait = request.options.get("wait")
    if wait is None:
        return (yield from attempts())
    ends = time.monotonic() + wait.total_seconds()
    answers = yield from attempts(wait)
    while _is_full(answers):
        with store.room.expecting(request.queue) as notified:
            left = max(0.0, ends - time.monotonic())
            answers = yield from attempts(timedelta(seconds=left), answers[0].request_id)
            if _is_full(answers):
                patience = (
                    LONGEST_WAIT_FOR_ROOM
                    if store.room.is_listening
                    else LONGEST_WAIT_WITHOUT_NOTIFICATIONS
                )
                left = max(0.0, ends - time.monotonic())
                yield from pause(min(left, patience * random.uniform(0.5, 1)), notified)
    return answers


class _Attempts:
    """An enqueue in a transaction of its own. After a transient error it is tried again."""

    def __init__(self, store: Store, request: EnqueueCall[Any], retry_for: timedelta) -> None:
        self._store = store
        self._request = request
        self._receipt = request.options.get("receipt") or uuid.uuid4().hex
        self._retry_for = retry_for.total_seconds()
        #: True if a try failed but may still have enqueued the requests.
        self._maybe_done = False

    def __call__(
        self, wait: timedelta | None = None, waiter_id: int | None = None
    ) -> Steps[list[Enqueued]]:
        ends = time.monotonic() + (self._retry_for or RETRY_FOR.total_seconds())
        next_pause = FIRST_RETRY_PAUSE
        while True:
            try:
                return (yield from call(partial(self._attempt, ends, wait, waiter_id)))
            except RowleaseError as error:
                nap = next_pause * random.uniform(0.5, 1)
                left = ends - time.monotonic() - nap
                self._give_up_after(error, is_over=left < self._retry_for * SHORTEST_SHARE)
            yield from pause(nap)
            next_pause = min(LONGEST_RETRY_PAUSE, 2 * next_pause)

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
        return store.enqueue_many(
            self._request.queue,
            self._request.batch,
            receipt_key=self._receipt,
            wait=wait,
            waiter_id=waiter_id,
            **self._request.batches(),
        )

    def _give_up_after(self, error: RowleaseError, *, is_over: bool) -> None:
        """Raise the error unless the call is tried again."""
        is_transient = isinstance(error, StoreError) and error.transient
        self._maybe_done |= isinstance(error, StoreError) and error.maybe_done
        if is_transient and self._retry_for and not is_over:
            return
        if self._maybe_done:
            # The last try may have been refused, but an earlier one may still take effect.
            raise EnqueueUnknown(
                f"it is not known whether the requests were enqueued ({error}); enqueue them again "
                f"with receipt={self._receipt!r}: that enqueues them once",
                receipt=self._receipt,
            ) from error
        raise error


def _is_full(answers: list[Enqueued]) -> bool:
    return bool(answers) and answers[0].outcome is Outcome.FULL
