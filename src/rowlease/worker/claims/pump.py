"""The pump: carries outcomes to the database and requests back.

The only place that calls `exchange`, `complete`, `abandon` and `disown`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta

from rowlease.clock import now
from rowlease.errors import StoreError
from rowlease.events import (
    Claimed,
    Events,
    OutcomeRefused,
)
from rowlease.model import Claim, Failure
from rowlease.store import Consuming
from rowlease.tasks import Registry
from rowlease.worker.claims.delivered_outcomes import DeliveredOutcomes
from rowlease.worker.claims.leases import Lease, Leases, share
from rowlease.worker.claims.lost_claims import LostClaims
from rowlease.worker.claims.outcomes import NotDone, Outcomes
from rowlease.worker.claims.queue_order import QueueOrder
from rowlease.worker.retry_policy import is_about_what_was_sent, plain
from rowlease.worker.summary import Counts
from rowlease.worker.times import EXCHANGE_LEAST, EXCHANGE_SHARE

#: What one claim takes at most.
MAX_LIMIT = 10_000


class Pump:
    """Exchanges outcomes for requests.

    `deliver` is safe from any thread. Claims belong to the receiver's; outcomes alone may be
    exchanged beside a claim.

    Args:
        lease: how long leases last; None takes the queues'.
    """

    def __init__(
        self,
        store: Consuming,
        worker_id: str,
        queues: QueueOrder,
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
        self._waiting = Outcomes()  # delivered, not taken up by `exchange` yet
        # Taken up by one each: what is not known to have arrived, and all of it.
        self._leaving: dict[Outcomes, Outcomes] = {}
        self.lost_claims = LostClaims(worker_id, events)
        self.waiting_since: float | None = None
        self.counts = Counts()
        self._delivered = DeliveredOutcomes(self.counts, events)

    def deliver(self, outcomes: Outcomes, over: Sequence[Lease] = ()) -> None:
        """Send these with the next exchange.

        Args:
            over: the leases that end with it: each is held, or its outcome is on its way.
        """
        with self._lock:
            self._leases.drop(over)
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
            self._leaving[leaving] = leaving.copy()
        try:
            claim = self._send(leaving, limit, slots)
        except StoreError as error:
            if limit and error.maybe_done:
                self.lost_claims.add()
            raise
        finally:
            with self._lock:
                del self._leaving[leaving]
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

    def disown(self) -> int:
        """Disown what a claim has leased whose answer was lost; how many requests that were.

        For the thread that claims: a claim that is answered meanwhile would be disowned, too.
        """
        with self._lock:
            held = self._leases.requests()
            for outcomes in (self._waiting, *self._leaving.values()):
                held += outcomes.requests()
        return self.lost_claims.disown(self._within(), self._queues.order(), held)

    def _send(self, leaving: Outcomes, limit: int, slots: int) -> Claim | None:
        if abandoned := leaving.abandoned:
            answers = self._within().abandon([lease.request for lease in abandoned])
            leaving.abandoned = []
            self._delivered.abandoned(abandoned, answers)
        if declined := leaving.declined:
            self._decline(declined)
            leaving.declined = []
        if not leaving and not limit:
            return None
        done, not_done = leaving.done, leaving.not_done
        try:
            exchanged = self._within().exchange(
                self._worker_id,
                self._queues.order(),
                limit,
                completed=[(one.lease.request, one.result) for one in done],
                failed=[(one.lease.request, one.failure) for one in not_done],
                slots=slots,
                lease=self._lease,
                floor=self._floor,
            )
        except Exception as error:
            if not (leaving and is_about_what_was_sent(error)):
                raise
            self._send_apart(leaving)
            return self._send(leaving, limit, slots)
        leaving.done, leaving.not_done = [], []
        self._delivered.done(done, exchanged.completed)
        self._delivered.not_done(not_done, exchanged.failed, exchanged.dead)
        return exchanged.claim if limit else None

    def _decline(self, declined: Sequence[Lease]) -> None:
        requests = [lease.request for lease in declined]
        errors = [plain(self._tasks.unknown(request.kind)) for request in requests]
        self._delivered.declined(declined, *self._within().decline(requests, errors))

    def _within(self) -> Consuming:
        lease = self._lease.total_seconds() if self._lease else self._leases.shortest
        return self._store.within(share(lease, EXCHANGE_SHARE, EXCHANGE_LEAST))

    def _send_apart(self, leaving: Outcomes) -> None:
        """Find out which outcomes the database refuses, and let the others through."""
        parts = [Outcomes(leaving.done, leaving.not_done)]
        leaving.done, leaving.not_done = [], []
        try:
            while parts:
                part = parts[-1]
                try:
                    self._send_part(part)
                except Exception as error:
                    if not is_about_what_was_sent(error):
                        raise
                    parts[-1:] = part.halves() if len(part) > 1 else self._instead(part, error)
                else:
                    parts.pop()
        finally:
            for part in parts:
                leaving.extend(part)

    def _send_part(self, part: Outcomes) -> None:
        if part.done:
            done, part.done = part.done, []
            try:
                answers = self._within().complete(
                    [one.lease.request for one in done], [one.result for one in done]
                )
            except Exception:
                part.done = done
                raise
            self._delivered.done(done, answers)
        if part.not_done:
            failed = [(one.lease.request, one.failure) for one in part.not_done]
            answer = self._within().exchange(
                self._worker_id, self._queues.order(), 0, failed=failed
            )
            self._delivered.not_done(part.not_done, answer.failed, answer.dead)

    def _instead(self, part: Outcomes, error: Exception) -> list[Outcomes]:
        """What to send for the one outcome of `part`, which was refused, if anything."""
        for one in part.done:
            refusal = Failure(plain(f"the database refused the result: {error}"))
            return [Outcomes(not_done=[NotDone(one.lease, refusal, one.seconds)])]
        for refused in part.not_done:
            cleaned = refused.failure._replace(error=plain(refused.failure.error))
            if cleaned != refused.failure:
                return [Outcomes(not_done=[refused._replace(failure=cleaned)])]
            self.counts.lost += 1
            self._events.emit(OutcomeRefused(refused.lease.request, str(error)))
        return []

    def _leased(self, claim: Claim, asked_at: float) -> list[Lease]:
        leases = []
        unknown = []
        for request in claim.requests:
            number, limit = self._numbers.get(request.kind, (-1, None))
            lease = Lease(request, number, limit, asked_at)
            if number >= 0:
                leases.append(lease)
            else:
                unknown.append(lease)
        self._leases.add(leases)
        if unknown:
            self.deliver(Outcomes(declined=unknown))
        self.counts.claimed += len(claim.requests)
        if claim.requests and self._events.wants(Claimed):
            self._events.emit(Claimed(tuple(claim.requests)))
        return leases
