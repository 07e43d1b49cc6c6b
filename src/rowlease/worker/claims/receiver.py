"""The receiver: decides when to exchange with the database, and for how much.

It runs in a thread of its own, the only one that waits for claims and outcomes to be answered, and
the only one that changes the receiver. Other threads post messages to its inbox. What they read of
it (`is_quiet`, `is_calling`, whether an exchange is due) may be slightly out of date.

`receiver_state` has its states and the table of transitions. After each exchange and each wait it
reads the inbox, then exchanges if that is due, or waits until it is or a message comes.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, WorkerIdle
from rowlease.model import Claim
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.next_claim import NextClaim
from rowlease.worker.claims.outage import Outage
from rowlease.worker.claims.pump import Pump
from rowlease.worker.claims.receiver_state import CLAIMING, IDLE, Event, State, following

#: Seconds outcomes of a busy worker may wait for a claim to travel with.
FLUSH = 0.1
#: Seconds a worker stays announced, and its state AWAKE, after it last found a queue empty.
STILL_IDLE = 1.0


class Demand(Protocol):
    """How many requests are wanted, and where they go. The dispatcher documents it."""

    capacity: int
    idle: int

    @property
    def held(self) -> int: ...

    def take(self, leases: list[Lease]) -> None: ...


class Receiver:
    """Claims when slots are free and there may be work; delivers outcomes with the claims.

    Args:
        poll: seconds to sleep at most while the queues are empty.
        flush: seconds outcomes may wait for a claim to travel with.
        drained: called when a claim finds nothing and nothing is held; for burst workers.
    """

    def __init__(
        self,
        pump: Pump,
        slots: Demand,
        leases: Leases,
        events: Events,
        *,
        listener: Listener | None,
        poll: float,
        flush: float = FLUSH,
        drained: Callable[[], object] | None,
    ) -> None:
        self._pump = pump
        self._slots = slots
        self._leases = leases
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
        self._give_up_at = math.inf

    # -- for other threads -----------------------------------------------------------------------

    def notice(self) -> None:
        """Something has changed: slots are free, or outcomes wait."""
        if self._pause() <= 0:
            self._wake.set()

    def notified(self) -> None:
        """Something may have been enqueued."""
        self._post(self._requests_may_have_come)

    def announced(self) -> None:
        """Producers send notifications from now on; those who looked before may not have."""
        self._post(self._producers_notify)

    def sent(self) -> None:
        """Outcomes were delivered beside a claim, which may have made room, or have come back."""
        self._post(self._next_claim.at_once)

    def go_on(self) -> None:
        """Leases can be renewed again, so the database answers."""
        self._post(self._database_answers)

    def drain(self) -> None:
        """Claim no more."""
        self._post(partial(self._on, Event.DRAIN))

    def close(self, give_up_at: float) -> None:
        """End `run` when everything is delivered, or when it is too late for that."""
        self._post(partial(self._close, give_up_at))

    @property
    def is_quiet(self) -> bool:
        """Will it hand over no more requests?"""
        return self._state not in CLAIMING

    @property
    def is_calling(self) -> bool:
        """Does it wait for a database that answers?"""
        return self._is_calling and self._outage.since is None

    def _post(self, message: Callable[[], None]) -> None:
        self._inbox.append(message)
        self._wake.set()

    # -- its thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Exchange until closed.

        Raises:
            RowleaseError: the store refused at the start, or for longer than a worker bears.
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
            self._on(Event.END)

    def _on(self, event: Event) -> None:
        """Change the state. Nothing else does."""
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
            self._slots.take([])  # wakes the dispatcher, which may wait for this

    def _is_over(self) -> bool:
        if self._state is not State.CLOSING:
            return False
        pump = self._pump
        return not (pump.undelivered or pump.lost_claims.is_unsure) or now() >= self._give_up_at

    def _pause(self) -> float:
        """Seconds until the next exchange; 0 or less: it is due."""
        at = now()
        if self._outage.retry_at > at:
            return self._outage.retry_at - at
        waiting_since = self._pump.waiting_since
        disown_in = self._pump.lost_claims.look_at - at
        if self.is_quiet:
            return disown_in if waiting_since is None and self._outage.since is None else 0.0
        slots = self._slots
        free = slots.capacity - slots.held
        # Not for every single one of many short requests; but a slot must not stand still.
        wanted = free > 0 and self._may_claim and (slots.idle > 0 or 2 * free >= slots.capacity)
        claim_in = min(self._next_claim.at - at if wanted else math.inf, disown_in)
        if waiting_since is None:
            return claim_in
        if self._state is not State.BUSY or slots.held == 0:
            return 0.0
        return min(claim_in, waiting_since + self._flush - at)

    @property
    def _may_claim(self) -> bool:
        """Nor while leases cannot be renewed: what it claimed would be lost, after it had begun."""
        return not self.is_quiet and self._leases.failing_since is None

    def _wait(self, pause: float) -> None:
        if self._state in IDLE and self._slots.held >= self._slots.capacity:
            self._claim_more()
            pause = min(pause, STILL_IDLE)
        pause = min(pause, max(0.0, self._give_up_at - now()))
        self._wake.wait(None if pause == math.inf else pause)
        self._wake.clear()

    # -- messages --------------------------------------------------------------------------------

    def _read_inbox(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def _requests_may_have_come(self) -> None:
        self._next_claim.mark_unsure()
        self._next_claim.at_once()

    def _producers_notify(self) -> None:
        self._requests_may_have_come()
        self._next_claim.plan_looks()
        self._on(Event.ANNOUNCED)

    def _database_answers(self) -> None:
        self._outage.retry_now()
        self._next_claim.at_once()

    def _close(self, give_up_at: float) -> None:
        self._give_up_at = give_up_at
        self._outage.retry_now()
        self._on(Event.CLOSE)

    # -- exchanges -------------------------------------------------------------------------------

    def _exchange(self) -> None:
        pump, slots = self._pump, self._slots
        limit = max(0, slots.capacity - slots.held) if self._may_claim else 0
        self._is_calling = True
        try:
            has_disowned = now() >= pump.lost_claims.look_at and pump.disown() > 0
            leases, claim = pump.exchange(limit, slots.idle)
        except RowleaseError as error:
            self._outage.failed(error)
            return  # what was due is still due
        finally:
            self._is_calling = False
        self._outage.answered()
        if leases:
            slots.take(leases)
        if claim is not None:
            self._plan_after(claim)
        if has_disowned:
            self._next_claim.at_once()

    def _plan_after(self, claim: Claim) -> None:
        # After a single one a notification announces the next; several mean that more are coming.
        alone = len(claim.requests) == 1 and self._is_announced()
        if claim.more or (claim.requests and not alone):
            self._claim_more()
        else:
            self._claim_later(claim)

    def _is_announced(self) -> bool:
        """Will producers send a notification for whatever comes after this?"""
        return self._listener is not None and self._listener.is_announced

    def _claim_more(self) -> None:
        self._requests_may_have_come()
        lasts = now() - self._last_empty > STILL_IDLE
        self._on(Event.STILL_MORE if lasts else Event.MORE)

    def _claim_later(self, claim: Claim) -> None:
        self._last_empty = now()
        if claim.requests:
            self._next_claim.mark_unsure()
        elif self._drained and self._slots.held == 0 and not self._pump.undelivered:
            if not self._pump.looked_everywhere:
                self._pump.drop_floor()
                self._next_claim.at_once()
                self._on(Event.LAST)
                return
            self._drained()
            self._drained = None
        sleeps = self._next_claim.later(claim)
        self._on(Event.NOTHING if sleeps and not claim.requests else Event.LAST)
