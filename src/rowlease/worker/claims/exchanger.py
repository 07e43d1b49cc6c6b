"""The exchanger delivers outcomes to the database and claims requests, in one call where it can.

Only this module calls the routines that end leases, claim requests, or disown lost claims.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from rowlease.clock import now
from rowlease.errors import RowleaseError, StoreError
from rowlease.events import Claimed, Disowned, Events, OutcomeRefused
from rowlease.model import Claim, Failure, LeasedRequest, Outcome
from rowlease.store import Store
from rowlease.tasks.chains import has_batch_before, has_successor, successor_of
from rowlease.tasks.task import Registry
from rowlease.worker.attempt import SnoozeAsked
from rowlease.worker.calls import ascii_only, is_caused_by_data
from rowlease.worker.claims.before_start import has_expired, request_or_failure
from rowlease.worker.claims.leases import Lease, Leases, call_timeout
from rowlease.worker.claims.outcomes import FEW, DeliveredOutcomes, Ended, Outcomes
from rowlease.worker.claims.queues import QueueOrder
from rowlease.worker.summary import Counts
from rowlease.worker.timings import EXCHANGE_TIMEOUT_LEAST, EXCHANGE_TIMEOUT_SHARE

#: Seconds after the loss of a claim's answer during which the claim may still commit on the server.
LATE_COMMIT = 10.0
#: Seconds between two calls of `disown` in that time.
LATE_COMMIT_CHECK = 1.0


class LostClaims:
    """Tracks whether the database may have leases of this worker that the worker does not know.

    Attributes:
        check_at: when to call `disown` next.
        is_unsure: whether a claim's answer was lost since the last call of `disown`.
    """

    def __init__(self, worker_id: str, events: Events) -> None:
        self._worker_id = worker_id
        self._events = events
        self._late_until = 0.0
        self.check_at = math.inf
        self.is_unsure = False

    def add(self) -> None:
        """Record that the answer to a claim has just been lost."""
        self._late_until = now() + LATE_COMMIT
        self.check_at, self.is_unsure = now(), True

    def disown(self, store: Store, queues: Sequence[str], held: Sequence[LeasedRequest]) -> int:
        """Disown all leases of this worker except those of `held`; return the number disowned."""
        answers = store.disown(self._worker_id, queues, held)
        self.is_unsure = False
        at = now()
        self.check_at = at + LATE_COMMIT_CHECK if at < self._late_until else math.inf
        count = sum(outcome is Outcome.OK for _, outcome in answers)
        if count:
            self._events.emit(Disowned(count))
        return count


#: The maximum number of requests in one claim.
MAX_LIMIT = 10_000
#: The default lease of queues, from which deadlines are computed until the first claim.
DEFAULT_LEASE = 30.0
#: Seconds for which claims leave more than FEW outcomes to the outcome sender.
MANY_LEFT_SECONDS = 0.1


class Exchanger:
    """Delivers outcomes and claims requests.

    Any thread may call `deliver`. Only the receiver's thread may claim. During a claim, other
    threads may call `exchange` with a limit of 0.

    Args:
        lease: how long leases last. None means the setting of each queue.
    """

    def __init__(
        self,
        store: Store,
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
            each.name: (number, each.limit_seconds, each.retry_pause)
            for number, each in enumerate(tasks.values())
        }
        self._tasks = tasks
        self._leases = leases
        self._events = events
        self._lease = lease
        self._floor: str | None = None
        #: Whether the last claim had no floor, so that it missed no waiting request.
        self.claimed_without_floor = False
        self._lock = threading.Lock()
        #: Outcomes that no call of `exchange` is sending yet.
        self._waiting = Outcomes()
        #: For each call of `exchange` in progress: its outcomes without an answer, and all of them.
        self._sending: dict[Outcomes, Outcomes] = {}
        self.lost_claims = LostClaims(worker_id, events)
        self.waiting_since: float | None = None
        self.counts = Counts()
        self._delivered = DeliveredOutcomes(self.counts, events)

    def deliver(self, outcomes: Outcomes, over: Sequence[Lease] = ()) -> None:
        """Send these outcomes with the next exchange.

        Args:
            over: the leases that end with these outcomes, dropped under the same lock, so that
                `disown` finds each request among the held leases or among the outcomes.
        """
        with self._lock:
            self._leases.drop(over)
            self._waiting.extend(outcomes)
            # Another worker may wait for what this one declines, so that goes out at once.
            self.waiting_since = -math.inf if outcomes.declined else self.waiting_since or now()

    @property
    def undelivered(self) -> int:
        """The number of outcomes that may not have reached the database."""
        with self._lock:
            return len(self._waiting) + sum(map(len, self._sending))

    @property
    def num_waiting(self) -> int:
        """The number of outcomes that no call of `exchange` is sending yet."""
        return len(self._waiting)

    def drop_floor(self) -> None:
        """Have the next claim made without a floor."""
        self._floor = None

    def finish_batches(self) -> int:
        """Finish batches that may have ended with outcomes of this worker."""
        with suppress(RowleaseError):
            batches = self._delivered.take_batches(self._leases.requests())
            return sum(self._store_with_timeout().finish_batches(one) for one in batches)
        return 0

    def exchange(
        self, limit: int, slots: int, *, leaves_many: bool = False
    ) -> tuple[list[Lease], Claim | None]:
        """Deliver the waiting outcomes and claim up to `limit` requests.

        If the call fails, the next call sends every outcome that may not have arrived. The database
        answers `repeat` for an outcome that it already has.

        Args:
            limit: the maximum number of requests to claim; 0 means no claim.
            slots: how many of the claimed requests can start immediately; others are prefetched.
            leaves_many: whether more than FEW outcomes are left to the sender for some time.

        Returns:
            The leases, and the claim that they belong to (None if the limit is 0).

        Raises:
            StoreError: the database refused a call, or is unavailable.
        """
        limit = max(0, min(limit, MAX_LIMIT))
        asked_at = now()
        with self._lock:
            sending, since = Outcomes(), self.waiting_since or 0.0
            if not (leaves_many and len(self._waiting) > FEW and now() < since + MANY_LEFT_SECONDS):
                sending, self._waiting, self.waiting_since = self._waiting, sending, None
            self._sending[sending] = sending.copy()
        try:
            claim = self._send(sending, limit, slots)
        except StoreError as error:
            if limit and error.maybe_done:
                self.lost_claims.add()
            raise
        finally:
            with self._lock:
                del self._sending[sending]
                if sending:
                    sending.extend(self._waiting)
                    self._waiting, self.waiting_since = sending, now()
        if claim is None:
            return [], None
        self.claimed_without_floor = self._floor is None
        self._floor = claim.floor
        names = [request.queue_name for request in claim.requests]
        self._queues.record_claim(names, more_left=claim.more)
        return self._leased(claim, asked_at), claim

    def disown(self) -> int:
        """Disown the leases of claims whose answers were lost; return the number disowned.

        Only the thread that claims may call this. In another thread, the call would also disown the
        leases of a claim that is under way.
        """
        with self._lock:
            held = self._leases.requests()
            for outcomes in (self._waiting, *self._sending.values()):
                held += outcomes.requests()
        return self.lost_claims.disown(self._store_with_timeout(), self._queues.order(), held)

    def _send(self, sending: Outcomes, limit: int, slots: int) -> Claim | None:
        if abandoned := sending.abandoned:
            expired = [lease for lease in abandoned if has_expired(lease.request)]
            waiting = [lease for lease in abandoned if not has_expired(lease.request)]
            store = self._store_with_timeout()
            for leases, give_up in ((waiting, store.abandon), (expired, store.expire)):
                if leases:
                    self._delivered.abandoned(leases, give_up([one.request for one in leases]))
            sending.abandoned = []
        if declined := sending.declined:
            self._decline(declined)
            sending.declined = []
        if snoozed := sending.snoozed:
            self._snooze(snoozed)
            sending.snoozed = []
        if any(has_successor(one.lease.request.payload) for one in sending.done):
            self._complete_with_successors(sending)
        if not sending:
            return self._claim(limit, slots) if limit else None
        done, not_done = sending.done, sending.not_done
        try:
            exchanged = self._store_with_timeout().exchange(
                self._worker_id,
                self._queues.order(),
                limit,
                completed=[(one.lease.request, one.ending.result) for one in done],
                failed=[(one.lease.request, one.ending) for one in not_done],
                slots=slots,
                lease=self._lease,
                floor=self._floor,
            )
        except Exception as error:
            if not (sending and is_caused_by_data(error)):
                raise
            self._send_in_parts(sending)
            return self._send(sending, limit, slots)
        sending.done, sending.not_done = [], []
        self._delivered.done(done, exchanged.completed)
        self._delivered.not_done(not_done, exchanged.failed, exchanged.dead)
        return exchanged.claim if limit else None

    def _claim(self, limit: int, slots: int) -> Claim:
        return self._store_with_timeout().dequeue(
            self._worker_id,
            self._queues.order(),
            limit,
            slots=slots,
            lease=self._lease,
            floor=self._floor,
            asynchronous_commit=True,
        )

    def _decline(self, declined: Sequence[Lease]) -> None:
        requests = [lease.request for lease in declined]
        errors = [ascii_only(self._tasks.unknown(request.kind)) for request in requests]
        answers, dead = self._store_with_timeout().decline(requests, errors)
        self._delivered.declined(declined, answers, dead)

    def _complete_with_successors(self, sending: Outcomes) -> None:
        """Complete the requests that have a successor, each in the transaction that enqueues it."""
        store = self._store_with_timeout()
        for one in sending.done:
            request, result = one.lease.request, one.ending.result
            try:
                successor = successor_of(request.payload, request.headers, result)
                if successor is None:
                    continue
                answer = store.complete_and_enqueue(request, result, *successor)
            except Exception as error:
                if not is_caused_by_data(error):
                    raise
                why = Failure(ascii_only(f"the next link of the chain was refused: {error}"))
                sending.not_done = [*sending.not_done, Ended(one.lease, why, one.seconds)]
            else:
                self._delivered.done([one], [answer])
            sending.done = [other for other in sending.done if other is not one]

    def _filled(self, lease: Lease) -> list[Lease]:
        """The lease of a request that has waited for a batch, if it has what it needs of it."""
        found = request_or_failure(self._store_with_timeout(), lease.request)
        if not isinstance(found, Failure):
            lease.request = found
            return [lease]
        self.deliver(Outcomes(not_done=[Ended(lease, found, 0.0)]))
        return []

    def _snooze(self, snoozed: Sequence[Ended[SnoozeAsked]]) -> None:
        requests = [one.lease.request for one in snoozed]
        delays = [one.ending.after for one in snoozed]
        reasons = [one.ending.reason for one in snoozed]
        try:
            answers = self._store_with_timeout().snooze(requests, delays, reasons)
        except Exception as error:
            if not is_caused_by_data(error):
                raise
            reasons = [ascii_only(reason) for reason in reasons]
            answers = self._store_with_timeout().snooze(requests, delays, reasons)
        self._delivered.snoozed(snoozed, answers)

    def _store_with_timeout(self) -> Store:
        lease = self._lease.total_seconds() if self._lease else self._leases.shortest
        if lease == math.inf:
            lease = DEFAULT_LEASE
        return self._store.within(
            call_timeout(lease, EXCHANGE_TIMEOUT_SHARE, EXCHANGE_TIMEOUT_LEAST)
        )

    def _send_in_parts(self, sending: Outcomes) -> None:
        """Deliver the outcomes in ever smaller parts, to find the outcomes that are refused."""
        parts = [Outcomes(sending.done, sending.not_done)]
        sending.done, sending.not_done = [], []
        try:
            while parts:
                part = parts[-1]
                try:
                    self._send_part(part)
                except Exception as error:
                    if not is_caused_by_data(error):
                        raise
                    parts[-1:] = part.halves() if len(part) > 1 else self._replacement(part, error)
                else:
                    parts.pop()
        finally:
            for part in parts:
                sending.extend(part)

    def _send_part(self, part: Outcomes) -> None:
        if part.done:
            done, part.done = part.done, []
            try:
                answers = self._store_with_timeout().complete(
                    [one.lease.request for one in done], [one.ending.result for one in done]
                )
            except Exception:
                part.done = done
                raise
            self._delivered.done(done, answers)
        if part.not_done:
            failed = [(one.lease.request, one.ending) for one in part.not_done]
            answer = self._store_with_timeout().exchange(
                self._worker_id, self._queues.order(), 0, failed=failed
            )
            self._delivered.not_done(part.not_done, answer.failed, answer.dead)

    def _replacement(self, part: Outcomes, error: Exception) -> list[Outcomes]:
        """The replacement for a refused outcome, which is the only one in `part`.

        A refused result is replaced by a failure, and a refused failure by its text in ASCII. If
        the ASCII text is refused as well, nothing is sent and the lease runs out.
        """
        for one in part.done:
            refusal = Failure(ascii_only(f"the database refused the result: {error}"))
            return [Outcomes(not_done=[Ended(one.lease, refusal, one.seconds)])]
        for refused in part.not_done:
            why = refused.ending
            cleaned = why._replace(
                error=ascii_only(why.error),
                error_type=why.error_type and ascii_only(why.error_type),
                traceback=why.traceback and ascii_only(why.traceback),
            )
            if cleaned != why:
                return [Outcomes(not_done=[refused._replace(ending=cleaned)])]
            self.counts.lost += 1
            self._events.emit(OutcomeRefused(refused.lease.request, str(error)))
        return []

    def _leased(self, claim: Claim, asked_at: float) -> list[Lease]:
        leases = []
        others = Outcomes()
        for request in claim.requests:
            number, limit, pause = self._numbers.get(request.kind, (-1, None, None))
            lease = Lease(request, number, limit, asked_at, pause)
            if number >= 0 and request.headers and has_expired(request):
                others.abandoned.append(lease)
            elif number >= 0 and has_batch_before(request.payload):
                leases += self._filled(lease)
            elif number >= 0:
                leases.append(lease)
            else:
                others.declined.append(lease)
        self._leases.add(leases)
        if others:
            self.deliver(others)
        self.counts.claimed += len(claim.requests)
        if claim.requests and self._events.has_subscriber(Claimed):
            self._events.emit(Claimed(tuple(claim.requests)))
        return leases
