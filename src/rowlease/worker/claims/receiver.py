"""The receiver decides when to claim, how many requests to claim, and when to deliver outcomes.

The receiver runs in its own thread. Only this thread claims, and only this thread changes the
receiver's state: other threads post messages to the receiver's inbox. Values that other threads
read (`is_quiet`, `is_calling`, whether an exchange is due) may be slightly out of date.

An exchange delivers the waiting outcomes and claims requests, usually in one call. It is due when
outcomes have waited long enough, or when it is time to claim and slots are free. In a loop, the
receiver reads its inbox. Then it makes an exchange if one is due, or else waits until one is due or
a message arrives. `receiver_state` has the states and the table of transitions.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, WorkerIdle
from rowlease.model import Claim
from rowlease.worker.calls import Outage
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.outcomes import FEW
from rowlease.worker.claims.receiver_state import (
    CLAIMING,
    IDLE,
    NextClaim,
    State,
    Trigger,
    following,
)
from rowlease.worker.claims.suspects import Suspects

#: The longest time, in seconds, that a busy worker's outcomes wait to be delivered with a claim.
FLUSH = 0.1
#: While claims find requests, the state is AWAKE until this many seconds have passed since a claim
#: last emptied the queues. Then the state is BUSY. An AWAKE worker is still announced as idle.
AWAKE_SECONDS = 1.0


class Demand(Protocol):
    """The members of the dispatcher that the receiver uses; `Dispatcher` documents them."""

    capacity: int
    idle: int

    @property
    def held(self) -> int: ...

    def take(self, leases: list[Lease]) -> None: ...


class Receiver:
    """Claims when slots are free and requests may wait; delivers outcomes with the claims.

    Args:
        listener: the listener; None in burst mode, or if the database sends no notifications.
        poll: the longest sleep while the queues are empty, in seconds; see `NextClaim`.
        flush: the longest time that outcomes wait to be delivered with a claim, in seconds.
        drained: a function for burst mode. The receiver calls it when the worker holds no request
            and a claim finds none, and none that another transaction has locked. The argument is
            the time before the claim. If the function returns False, the receiver claims again.
    """

    def __init__(
        self,
        exchanger: Exchanger,
        slots: Demand,
        leases: Leases,
        suspects: Suspects,
        events: Events,
        *,
        listener: Listener | None,
        poll: float,
        flush: float = FLUSH,
        drained: Callable[[float], bool] | None,
    ) -> None:
        self._exchanger = exchanger
        self._slots = slots
        self._leases = leases
        self._suspects = suspects
        self._events = events
        self._listener = listener
        self._flush = flush
        self._drained = drained
        self._wake = threading.Event()
        self._inbox: deque[Callable[[], None]] = deque()
        self._state = State.BUSY
        self._outage = Outage(events)
        self._is_calling = False
        self._next_claim = NextClaim(poll)
        self._last_empty = -math.inf
        self._called_at = -math.inf
        self._give_up_at = math.inf
        #: Called when a call to the database begins.
        self.begins_call: Callable[[], object] = lambda: None

    # -- for other threads -----------------------------------------------------------------------

    def notice(self) -> None:
        """Wake the receiver if an exchange is due: slots may be free, or outcomes may wait."""
        if self._pause() <= 0:
            self._wake.set()

    def notified(self) -> None:
        """Claim soon, because requests may have been enqueued."""
        self._post(self._producers_have_notified)

    def announced(self) -> None:
        """Claim a few more times, because producers send notifications only from now on."""
        self._post(self._producers_notify)

    def sent(self) -> None:
        """Claim at once, because delivered outcomes may have made other requests claimable."""
        self._post(self._next_claim.at_once)

    def go_on(self) -> None:
        """Call the database at once, because a renewal has succeeded after an outage."""
        self._post(self._database_answers)

    def drain(self) -> None:
        """Stop claiming."""
        self._post(partial(self._on, Trigger.DRAIN))

    def close(self, give_up_at: float) -> None:
        """Ask `run` to end when every outcome is delivered, or at the time `give_up_at`."""
        self._post(partial(self._close, give_up_at))

    @property
    def is_quiet(self) -> bool:
        """Whether the receiver claims no more, so that the dispatcher gets no more requests."""
        return self._state not in CLAIMING

    @property
    def is_calling(self) -> bool:
        """Whether a call is under way, and the receiver knows of no outage of the database."""
        return self._is_calling and self._outage.since is None

    def _post(self, message: Callable[[], None]) -> None:
        self._inbox.append(message)
        self._wake.set()

    # -- its thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Claim and deliver until closed.

        Raises:
            RowleaseError: the database refused the first call, or has refused calls for a minute.
        """
        try:
            self._read_inbox()
            while not self._is_over():
                pause = self._pause()
                if pause <= 0:
                    self._exchange()
                else:
                    self._wait(pause)
                self._read_inbox()
        finally:
            self._on(Trigger.END)

    def _on(self, event: Trigger) -> None:
        """Change the state. No other method changes it."""
        was, self._state = self._state, following(self._state, event)
        if self._state is was:
            return
        if was is State.BUSY and self._state in IDLE and self._listener:
            self._listener.announce()
        if self._state is State.BUSY and self._listener:
            self._listener.retract()
        if self._state is State.ASLEEP:
            self._events.emit(WorkerIdle(self._is_announced()))
        if was in CLAIMING and self.is_quiet:
            self._suspects.abandon()
            self._slots.take([])  # wakes the dispatcher, which may be waiting for this state

    def _is_over(self) -> bool:
        if self._state is not State.CLOSING:
            return False
        exchanger = self._exchanger
        return (
            not (exchanger.undelivered or exchanger.lost_claims.is_unsure)
            or now() >= self._give_up_at
        )

    def _pause(self) -> float:
        """Seconds until the next exchange. An exchange is due if the result is 0 or less."""
        at = now()
        if self._outage.retry_at > at:
            return self._outage.retry_at - at
        waiting_since = self._exchanger.waiting_since
        disown_in = self._exchanger.lost_claims.check_at - at
        if self.is_quiet:
            return disown_in if waiting_since is None and self._outage.since is None else 0.0
        slots = self._slots
        free = slots.capacity - slots.held
        # Many claims for a few requests each would cost too much. So unless a slot is idle, the
        # next claim waits until half the capacity is free.
        has_room = free > 0 and (slots.idle > 0 or 2 * free >= slots.capacity)
        claim_in = self._next_claim.at - at if has_room and self._may_claim else math.inf
        claim_in = min(claim_in, disown_in, self._suspects.due_in())
        if waiting_since is None:
            return claim_in
        if self._state is not State.BUSY or slots.held == 0:
            return 0.0
        return min(claim_in, waiting_since + self._flush - at)

    @property
    def _may_claim(self) -> bool:
        """Whether claims are allowed in this state.

        They are not allowed while renewals fail, because the new leases would be lost soon, and
        while a suspect waits or runs.
        """
        return not (
            self.is_quiet or self._leases.failing_since is not None or self._suspects.holds_claims
        )

    def _wait(self, pause: float) -> None:
        if self._state in IDLE and self._slots.held >= self._slots.capacity:
            self._claim_more()
            pause = min(pause, AWAKE_SECONDS)
        pause = min(pause, max(0.0, self._give_up_at - now()))
        self._wake.wait(None if pause == math.inf else pause)
        self._wake.clear()

    # -- messages --------------------------------------------------------------------------------

    def _read_inbox(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def _producers_have_notified(self) -> None:
        self._next_claim.mark_unsure()
        self._next_claim.notified()

    def _requests_may_have_come(self) -> None:
        self._next_claim.mark_unsure()
        self._next_claim.at_once()

    def _producers_notify(self) -> None:
        self._requests_may_have_come()
        self._next_claim.plan_rechecks()
        self._on(Trigger.ANNOUNCED)

    def _database_answers(self) -> None:
        self._outage.retry_now()
        self._next_claim.at_once()

    def _close(self, give_up_at: float) -> None:
        self._give_up_at = give_up_at
        self._outage.retry_now()
        self._on(Trigger.CLOSE)

    # -- exchanges -------------------------------------------------------------------------------

    def _exchange(self) -> None:
        exchanger, slots = self._exchanger, self._slots
        self._is_calling = True
        self._called_at = now()
        self.begins_call()
        try:
            self._suspects.step()
            limit = max(0, slots.capacity - slots.held) if self._may_claim else 0
            has_disowned = now() >= exchanger.lost_claims.check_at and exchanger.disown() > 0
            is_busy = limit > 0 and self._state is State.BUSY
            leases, claim = exchanger.exchange(limit, slots.idle, leaves_many=is_busy)
        except RowleaseError as error:
            self._outage.failed(error)
            return  # the exchange stays due
        finally:
            self._is_calling = False
        self._outage.answered()
        if leases and (leases := self._suspects.set_aside(leases)):
            slots.take(leases)
        if claim is not None:
            self._plan_after(claim)
        if has_disowned:
            self._next_claim.at_once()

    def _plan_after(self, claim: Claim) -> None:
        self._next_claim.note_found(bool(claim.requests))
        # After a claim of a single request, a notification announces the next request. Several
        # requests mean that producers are busy, so another claim will find more.
        is_single = len(claim.requests) == 1 and self._is_announced()
        if claim.more or (claim.requests and not is_single):
            self._claim_more()
        else:
            self._claim_later(claim)

    def _is_announced(self) -> bool:
        """Whether producers send a notification for the next request."""
        return self._listener is not None and self._listener.is_announced

    def _claim_more(self) -> None:
        self._requests_may_have_come()
        is_steady = now() - self._last_empty > AWAKE_SECONDS
        self._on(Trigger.STILL_MORE if is_steady else Trigger.MORE)

    def _claim_later(self, claim: Claim) -> None:
        self._last_empty = now()
        if claim.requests:
            self._next_claim.mark_unsure()
        elif self._exchanger.finish_batches():
            self._next_claim.at_once()
            self._on(Trigger.LAST)
            return
        elif self._drained and self._slots.held == 0 and not self._exchanger.undelivered:
            if not self._exchanger.claimed_without_floor:
                self._exchanger.drop_floor()
                self._next_claim.at_once()
                self._on(Trigger.LAST)
                return
            if claim.wait != timedelta(0) and self._drained(self._called_at):
                self._drained = None
            else:
                claim = claim._replace(wait=timedelta(0))
        sleeps = self._next_claim.later(claim)
        self._on(Trigger.NOTHING if sleeps and not claim.requests else Trigger.LAST)


#: Seconds after an error during which only the receiver makes calls. The receiver handles errors,
#: and it may have the only connection.
PAUSE_AFTER_ERROR = 1.0


class OutcomeSender:
    """Delivers outcomes when many wait and the receiver waits for an answer."""

    def __init__(self, exchanger: Exchanger, receiver: Receiver) -> None:
        self._exchanger = exchanger
        self._receiver = receiver
        self._wake = threading.Event()
        self._paused_until = 0.0
        self._closed = False
        receiver.begins_call = self.notice

    def notice(self) -> None:
        """Wake the sender if it has outcomes to deliver. Safe from any thread."""
        if self._is_due():
            self._wake.set()

    def close(self) -> None:
        """Ask `run` to end. The receiver delivers the remaining outcomes."""
        self._closed = True
        self._wake.set()

    def run(self) -> None:
        """Deliver until closed."""
        while not self._closed:
            self._wake.wait()
            self._serve()

    def _serve(self) -> None:
        self._wake.clear()
        while self._is_due():
            try:
                self._exchanger.exchange(0, 0)
            except RowleaseError:
                self._paused_until = now() + PAUSE_AFTER_ERROR
            self._receiver.sent()

    def _is_due(self) -> bool:
        many = self._exchanger.num_waiting > FEW and now() >= self._paused_until
        return many and self._receiver.is_calling and not self._closed
