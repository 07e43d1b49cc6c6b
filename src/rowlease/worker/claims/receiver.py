"""The receiver: decides when to exchange with the database, and for how much.

It runs in a thread of its own, the only one that waits for claims and outcomes to be answered.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, StoreLost, StoreRecovered, WorkerIdle
from rowlease.model import Claim
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.pump import Pump
from rowlease.worker.retry_policy import RetryPolicy

logger = logging.getLogger("rowlease")

#: Seconds outcomes of a busy worker may wait for a claim to travel with.
FLUSH = 0.1
#: Seconds after announcing idleness at which to claim once more: a producer that looked just before
#: sends no notification, and may commit a little later.
LOOKS = (0.0, 0.02, 0.2)
#: Seconds after a claim until its floor is dropped: by then a look shows what a late commit, or
#: `maintain`, had put below it (docs/decisions/0011).
FLOOR_DROPPED = 1.1
#: Seconds an idle worker sleeps at most: notifications may be lost, or there may be none.
POLL, POLL_WITHOUT_NOTIFICATIONS = 5.0, 1.0
#: Seconds an idle worker sleeps at least when something is due but could not be had.
SHORTEST_SLEEP = 0.02
#: Seconds a worker stays announced after it last found a queue empty.
STILL_IDLE = 1.0
#: Seconds between tries while the database is away: doubled each time, half of it random.
FIRST_RETRY, LAST_RETRY = 0.1, 5.0


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
        self._poll = poll
        self._flush = flush
        self._drained = drained
        self._wake = threading.Event()
        self._claiming = True
        self._give_up_at: float | None = None
        self._next_claim = 0.0
        self._notified = False
        self._looks: list[float] = []
        self._sure_at = 0.0
        self._last_empty: float | None = None
        self._asleep = False
        self._retry_at = 0.0
        self._retry_pause = 0.0
        self._lost_at: float | None = None
        self._patience = RetryPolicy()
        #: Since when it has waited for the database, if it does.
        self.calling_since: float | None = None
        #: It will hand over no more requests.
        self.is_quiet = False

    # -- called from other threads ---------------------------------------------------------------

    def notice(self) -> None:
        """Something has changed: slots are free, or outcomes wait."""
        if self._pause() <= 0:
            self._wake.set()

    def notified(self) -> None:
        """Something may have been enqueued."""
        self._sure_at = now() + FLOOR_DROPPED
        self._notified = True
        self._wake.set()

    def announced(self) -> None:
        """Producers send notifications from now on; those who looked before may not have."""
        self._looks = list(LOOKS)
        self._sure_at = now() + FLOOR_DROPPED
        self._asleep = False
        self._notified = True
        self._wake.set()

    def sent(self) -> None:
        """Outcomes were delivered beside a claim, which may have made room, or have come back."""
        self._notified = True
        self._wake.set()

    def go_on(self) -> None:
        """Leases can be renewed again, so the database answers."""
        self._retry_at = 0.0
        self.sent()

    def drain(self) -> None:
        """Claim no more."""
        self._claiming = False
        self._wake.set()

    def close(self, give_up_at: float) -> None:
        """End `run` when everything is delivered, or when it is too late for that."""
        self._claiming = False
        self._give_up_at = give_up_at
        self._retry_at = 0.0
        self._wake.set()

    @property
    def is_calling(self) -> bool:
        """Does it wait for a database that answers?"""
        return self.calling_since is not None and self._lost_at is None

    # -- its thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Exchange until closed.

        Raises:
            RowleaseError: the store refused at the start, or for longer than a worker bears.
        """
        try:
            while not self._is_over():
                if not self._claiming and not self.is_quiet:
                    self.is_quiet = True
                    self._slots.take([])  # wakes the dispatcher, which may wait for this
                pause = self._pause()
                if pause <= 0:
                    self._exchange()
                else:
                    self._wait(pause)
        finally:
            self.is_quiet = True

    def _wait(self, pause: float) -> None:
        if self._last_empty is not None and self._slots.held >= self._slots.capacity:
            self._busy()
            pause = min(pause, STILL_IDLE)
        if self._give_up_at is not None:
            pause = min(pause, max(0.0, self._give_up_at - now()))
        self._wake.wait(None if pause == math.inf else pause)
        self._wake.clear()

    def _is_over(self) -> bool:
        if self._give_up_at is None:
            return False
        pump = self._pump
        return not (pump.undelivered or pump.lost_claims.is_unsure) or now() >= self._give_up_at

    def _pause(self) -> float:
        """Seconds until the next exchange; 0 or less: it is due."""
        at = now()
        if self._retry_at > at:
            return self._retry_at - at
        waiting_since = self._pump.waiting_since
        disown_in = self._pump.lost_claims.look_at - at
        if not self._claiming:
            return disown_in if waiting_since is None and self._lost_at is None else 0.0
        slots = self._slots
        free = slots.capacity - slots.held
        # Not for every single one of many short requests; but a slot must not stand still.
        wanted = free > 0 and self._may_claim and (slots.idle > 0 or 2 * free >= slots.capacity)
        claim_in = 0.0 if self._notified else self._next_claim - at
        claim_in = min(claim_in if wanted else math.inf, disown_in)
        if waiting_since is None:
            return claim_in
        if self._last_empty is not None or slots.held == 0:
            return 0.0
        return min(claim_in, waiting_since + self._flush - at)

    @property
    def _may_claim(self) -> bool:
        """Nor while leases cannot be renewed: what it claimed would be lost, after it had begun."""
        return self._claiming and self._leases.failing_since is None

    def _exchange(self) -> None:
        slots = self._slots
        limit = max(0, slots.capacity - slots.held) if self._may_claim else 0
        self.calling_since = now()
        if limit:
            self._notified = False  # a later one may be for what this claim does not see
        try:
            if now() >= self._pump.lost_claims.look_at and self._pump.disown():
                self._notified = True
            leases, claim = self._pump.exchange(limit, slots.idle)
        except RowleaseError as error:
            if not self._patience.bears(error):
                raise
            self._notified = True  # whatever this claim was to find is still there
            self._store_lost(error)
            return
        finally:
            self.calling_since = None
        self._store_answers()
        if claim is None:
            return
        if leases:
            slots.take(leases)
        # After a single one a notification announces the next; several mean that more are coming.
        alone = len(claim.requests) == 1 and self._is_announced()
        if claim.more or (claim.requests and not alone):
            self._busy()
        else:
            self._nothing_left(claim)

    def _busy(self) -> None:
        self._next_claim = 0.0
        self._sure_at = now() + FLOOR_DROPPED
        self._asleep = False
        if self._last_empty is not None and now() - self._last_empty > STILL_IDLE:
            self._last_empty = None
            if self._listener:
                self._listener.retract()

    def _is_announced(self) -> bool:
        """Will producers send a notification for whatever comes after this?"""
        return self._listener is not None and self._listener.is_announced

    def _nothing_left(self, claim: Claim) -> None:
        self._last_empty = at = now()
        if claim.requests:
            self._sure_at = at + FLOOR_DROPPED
            self._asleep = False
        elif self._drained and self._slots.held == 0 and not self._pump.undelivered:
            if not self._pump.looked_everywhere:
                self._pump.drop_floor()
                self._next_claim = 0.0
                return
            self._drained()
            self._drained = None
        if self._listener:
            self._listener.announce()
        if self._looks:
            pause = self._looks.pop(0)
        else:
            wait = math.inf if claim.wait is None else claim.wait.total_seconds()
            unsure = self._sure_at - at
            poll = unsure if unsure > 0 else self._poll * random.uniform(0.8, 1.2)
            pause = min(max(wait, SHORTEST_SLEEP), poll)
            if not claim.requests:
                self._sleep()
        self._next_claim = at + pause

    def _sleep(self) -> None:
        if not self._asleep:
            self._asleep = True
            self._events.emit(WorkerIdle(self._is_announced()))

    def _store_lost(self, error: RowleaseError) -> None:
        if self._lost_at is None:
            self._lost_at = now()
            self._events.emit(StoreLost(str(error)))
        self._retry_pause = min(LAST_RETRY, max(FIRST_RETRY, 2 * self._retry_pause))
        self._retry_at = now() + self._retry_pause * random.uniform(0.5, 1)

    def _store_answers(self) -> None:
        self._patience.answered()
        if self._lost_at is not None:
            self._events.emit(StoreRecovered(now() - self._lost_at))
            self._lost_at = None
            self._retry_pause = 0.0
