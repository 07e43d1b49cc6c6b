"""The pump: carries outcomes to the database and requests back.

The only place that calls `exchange` and `abandon`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from rowlease.events import Abandoned, Claimed, Events, Failed, Finished, LeaseLost
from rowlease.model import Claim, Failure, Outcome
from rowlease.store import Store
from rowlease.tasks import Registry
from rowlease.worker.child import now
from rowlease.worker.leases import Lease, Leases
from rowlease.worker.turns import Turns

#: What one claim takes at most.
MAX_LIMIT = 10_000


class Done(NamedTuple):
    """A request whose task returned; `result` is JSON text."""

    lease: Lease
    result: str | None
    seconds: float


class NotDone(NamedTuple):
    """A request whose attempt failed."""

    lease: Lease
    failure: Failure
    seconds: float


@dataclass(slots=True, eq=False)  # each is itself, whatever it holds
class Outcomes:
    """Outcomes on their way to the database."""

    done: list[Done] = field(default_factory=list)
    not_done: list[NotDone] = field(default_factory=list)
    abandoned: list[Lease] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.done) + len(self.not_done) + len(self.abandoned)

    def extend(self, more: Outcomes) -> None:
        self.done += more.done
        self.not_done += more.not_done
        self.abandoned += more.abandoned


@dataclass(slots=True)
class Counts:
    """How many requests went which way."""

    claimed: int = 0
    finished: int = 0
    failed: int = 0
    abandoned: int = 0
    lost: int = 0


class Pump:
    """Exchanges outcomes for requests.

    `deliver` is safe from any thread. Claims belong to the receiver's; outcomes alone may be
    exchanged beside a claim.

    Args:
        lease: how long leases last; None takes the queues'.
    """

    def __init__(
        self,
        store: Store,
        worker_id: str,
        queues: Turns,
        tasks: Registry,
        leases: Leases,
        events: Events,
        *,
        lease: timedelta | None = None,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._queues = queues
        self._numbers = {
            each.name: (number, each.time_limit.total_seconds() if each.time_limit else None)
            for number, each in enumerate(tasks.values())
        }
        self._tasks = tasks
        self._leases = leases
        self._events = events
        self._lease = lease
        self._floor: str | None = None
        #: The last claim had no floor: nothing that it could have had was passed over.
        self.looked_everywhere = False
        self._lock = threading.Lock()
        self._answering = threading.Lock()  # what comes back is taken in one by one
        self._waiting = Outcomes()  # delivered, not taken up by `exchange` yet
        self._leaving: list[Outcomes] = []  # taken up by one each, not known to have arrived
        self.waiting_since: float | None = None
        self.counts = Counts()

    def deliver(self, outcomes: Outcomes) -> None:
        """Send these with the next exchange."""
        with self._lock:
            self._waiting.extend(outcomes)
            self.waiting_since = self.waiting_since or now()

    @property
    def undelivered(self) -> int:
        """How many outcomes the database does not know of yet."""
        with self._lock:
            return len(self._waiting) + sum(map(len, self._leaving))

    @property
    def num_waiting(self) -> int:
        """How many of them no exchange has taken up."""
        return len(self._waiting)

    def drop_floor(self) -> None:
        """Have the next claim look everywhere."""
        self._floor = None

    def exchange(self, limit: int, slots: int) -> tuple[list[Lease], Claim | None]:
        """Deliver every outcome and claim up to `limit` requests, of which `slots` start at once.

        What may not have arrived is sent again by the next call, and then answered with `repeat`.

        Returns:
            The leases, and the claim they came with (None where the limit is 0).

        Raises:
            StoreError: as the store's routines.
        """
        limit = max(0, min(limit, MAX_LIMIT))
        asked_at = now()
        with self._lock:
            leaving, self._waiting, self.waiting_since = self._waiting, Outcomes(), None
            self._leaving.append(leaving)
        try:
            claim = self._send(leaving, limit, slots)
        finally:
            with self._lock:
                self._leaving.remove(leaving)
                leaving.extend(self._waiting)
                self._waiting = leaving
                self.waiting_since = now() if leaving else None
        if claim is None:
            return [], None
        self.looked_everywhere = self._floor is None
        self._floor = claim.floor
        names = [request.queue_name for request in claim.requests]
        self._queues.took(names, all_wanted=claim.more)
        return self._leased(claim, asked_at), claim

    def _send(self, leaving: Outcomes, limit: int, slots: int) -> Claim | None:
        if abandoned := leaving.abandoned:
            answers = self._store.abandon([lease.request for lease in abandoned])
            leaving.abandoned = []
            with self._answering:
                self._abandoned(abandoned, answers)
        if not leaving and not limit:
            return None
        done, not_done = leaving.done, leaving.not_done
        exchanged = self._store.exchange(
            self._worker_id,
            self._queues.order(),
            limit,
            completed=[(one.lease.request, one.result) for one in done],
            failed=[(one.lease.request, one.failure) for one in not_done],
            slots=slots,
            lease=self._lease,
            floor=self._floor,
        )
        leaving.done, leaving.not_done = [], []
        with self._answering:
            self._done(done, exchanged.completed)
            self._not_done(not_done, exchanged.failed)
        return exchanged.claim if limit else None

    def _leased(self, claim: Claim, asked_at: float) -> list[Lease]:
        leases = []
        unknown = Outcomes()
        for request in claim.requests:
            number, limit = self._numbers.get(request.kind, (-1, None))
            lease = Lease(request, number, limit, asked_at)
            if number >= 0:
                leases.append(lease)
            else:
                unknown.not_done.append(
                    NotDone(lease, Failure(self._tasks.unknown(request.kind)), 0.0)
                )
        self._leases.add(leases)
        if unknown:
            self.deliver(unknown)
        self.counts.claimed += len(claim.requests)
        if claim.requests and self._events.wants(Claimed):
            self._events.emit(Claimed(tuple(claim.requests)))
        return leases

    def _done(self, done: Sequence[Done], answers: Sequence[Outcome]) -> None:
        self.counts.finished += self._arrived([one.lease for one in done], answers)
        if self._events.wants(Finished):
            for one, answer in zip(done, answers, strict=True):
                if answer in ARRIVED:
                    self._events.emit(Finished(one.lease.request, one.seconds))

    def _not_done(self, failed: Sequence[NotDone], answers: Sequence[Outcome]) -> None:
        self.counts.failed += self._arrived([one.lease for one in failed], answers)
        for one, answer in zip(failed, answers, strict=True):
            if answer in ARRIVED:
                said = one.failure
                self._events.emit(Failed(one.lease.request, one.seconds, said.error, said.dead))

    def _abandoned(self, abandoned: Sequence[Lease], answers: Sequence[Outcome]) -> None:
        self.counts.abandoned += self._arrived(abandoned, answers)
        for lease, answer in zip(abandoned, answers, strict=True):
            if answer in ARRIVED:
                self._events.emit(Abandoned(lease.request))

    def _arrived(self, leases: Sequence[Lease], answers: Sequence[Outcome]) -> int:
        """Count what arrived; report what was refused because the lease was lost."""
        lost = 0
        if answers.count(Outcome.OK) < len(leases):
            for lease, answer in zip(leases, answers, strict=True):
                if answer not in ARRIVED:
                    lost += 1
                    self._events.emit(LeaseLost(lease.request, answer))
        self.counts.lost += lost
        return len(leases) - lost


#: Repeat: it arrived before, and the answer was lost.
ARRIVED = (Outcome.OK, Outcome.REPEAT)
