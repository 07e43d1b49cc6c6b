"""The outcomes of requests: those that the database does not have yet, and its answers to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from rowlease.events import (
    Abandoned,
    Cancelled,
    Events,
    Failed,
    Finished,
    KindUnknown,
    LeaseLostEvent,
    Snoozed,
)
from rowlease.model import Failure, LeasedRequest, Outcome
from rowlease.worker.attempt import NOT_COMMITTED, Ending, Returned, SnoozeAsked
from rowlease.worker.claims.leases import Lease
from rowlease.worker.summary import Counts

#: `repeat` means that the database got the outcome in an earlier call whose answer was lost.
ACCEPTED = (Outcome.OK, Outcome.REPEAT)
#: The number of unknown kinds that are remembered, to emit each once. Producers may make up any
#: number of names.
REMEMBERED_KINDS = 1000
#: The number of batches from which on the worker looks at all batches, in place of each.
MANY_BATCHES = 8


class DeliveredOutcomes:
    """Counts and emits the outcomes that the database accepted, and the leases that were lost.

    Safe to use from any thread, because each method holds a lock.
    """

    def __init__(self, counts: Counts, events: Events) -> None:
        self._counts = counts
        self._events = events
        self._lock = threading.Lock()
        self._emitted: dict[KindUnknown, None] = {}  # a set that knows its oldest element
        self._batches: set[str] = set()

    def take_batches(self, held: Iterable[LeasedRequest]) -> list[str] | list[None]:
        """The batches whose requests have ended since the last call, and that these have not.

        None means all batches.
        """
        with self._lock:
            running = {one.load_id for one in held}
            ended, self._batches = self._batches - running, self._batches & running
        return [*ended] if len(ended) < MANY_BATCHES else [None]

    def _note_batches(self, ended: Sequence[Ended[Any]]) -> None:
        if len(self._batches) < MANY_BATCHES:
            ids = {one.lease.request.load_id for one in ended}
            self._batches.update(batch_id for batch_id in ids if batch_id is not None)

    def done(self, done: Sequence[Ended[Returned]], answers: Sequence[Outcome]) -> None:
        with self._lock:
            self._note_batches(done)
            self._counts.finished += self._count_accepted([one.lease for one in done], answers)
            if self._events.has_subscriber(Finished):
                for one, answer in zip(done, answers, strict=True):
                    if answer in ACCEPTED:
                        self._events.emit(Finished(one.lease.request, one.seconds))

    def not_done(
        self, failed: Sequence[Ended[Failure]], answers: Sequence[Outcome], dead: Sequence[bool]
    ) -> None:
        with self._lock:
            self._note_batches(failed)
            self._counts.failed += self._count_accepted([one.lease for one in failed], answers)
            for one, answer, is_dead in zip(failed, answers, dead, strict=True):
                why = one.ending
                if answer is Outcome.REPEAT and why == NOT_COMMITTED:
                    self._counts.failed -= 1
                    self._counts.finished += 1
                    self._events.emit(Finished(one.lease.request, one.seconds))
                elif answer in ACCEPTED:
                    self._counts.dead += is_dead
                    if one.lease.cancelled:
                        self._counts.failed -= 1
                        self._counts.cancelled += 1
                        self._events.emit(Cancelled(one.lease.request, one.seconds, why.error))
                        continue
                    self._events.emit(
                        Failed(
                            one.lease.request,
                            one.seconds,
                            why.error,
                            is_dead,
                            why.error_type,
                            why.traceback,
                        )
                    )

    def abandoned(self, abandoned: Sequence[Lease], answers: Sequence[Outcome]) -> None:
        with self._lock:
            self._counts.abandoned += self._count_accepted(abandoned, answers)
            for lease, answer in zip(abandoned, answers, strict=True):
                if answer in ACCEPTED:
                    self._events.emit(Abandoned(lease.request))

    def snoozed(self, snoozed: Sequence[Ended[SnoozeAsked]], answers: Sequence[Outcome]) -> None:
        with self._lock:
            self._counts.snoozed += self._count_accepted([one.lease for one in snoozed], answers)
            for (lease, (after, reason), seconds), answer in zip(snoozed, answers, strict=True):
                if answer in ACCEPTED:
                    self._events.emit(Snoozed(lease.request, seconds, after, reason))

    def declined(
        self, declined: Sequence[Lease], answers: Sequence[Outcome], dead: Sequence[bool]
    ) -> None:
        """Count declined requests. Emit one event for each kind, because requests may be many."""
        with self._lock:
            self._counts.dead += sum(dead)
            self._counts.declined += self._count_accepted(declined, answers) - sum(dead)
            for lease, is_dead in zip(declined, dead, strict=True):
                event = KindUnknown(lease.request.queue_name, lease.request.kind, is_dead)
                if event not in self._emitted:
                    self._emitted[event] = None
                    if len(self._emitted) > REMEMBERED_KINDS:
                        del self._emitted[next(iter(self._emitted))]
                    self._events.emit(event)

    def _count_accepted(self, leases: Sequence[Lease], answers: Sequence[Outcome]) -> int:
        lost = 0
        if answers.count(Outcome.OK) < len(leases):
            for lease, answer in zip(leases, answers, strict=True):
                if answer not in ACCEPTED:
                    lost += 1
                    self._events.emit(LeaseLostEvent(lease.request, answer))
        self._counts.lost += lost
        return len(leases) - lost


#: The maximum number of outcomes that always wait for the next claim. A separate transaction for so
#: few outcomes is not worth its cost.
FEW = 100

#: `Ending`, or one of its kinds.
E = TypeVar("E", bound=Ending)


class Ended(NamedTuple, Generic[E]):
    """How the attempt at a request ended, and its run time in seconds."""

    lease: Lease
    ending: E
    seconds: float


@dataclass(slots=True, eq=False)  # compared by identity, so that it can be a key
class Outcomes:
    """Outcomes that the database does not have yet."""

    done: list[Ended[Returned]] = field(default_factory=list)
    not_done: list[Ended[Failure]] = field(default_factory=list)
    abandoned: list[Lease] = field(default_factory=list)
    declined: list[Lease] = field(default_factory=list)  # their kinds are unknown to this worker
    snoozed: list[Ended[SnoozeAsked]] = field(default_factory=list)

    def __len__(self) -> int:
        ended = len(self.done) + len(self.not_done) + len(self.snoozed)
        return ended + len(self.abandoned) + len(self.declined)

    def add(self, ended: Ended[Any]) -> None:
        """Add the outcome of one attempt."""
        kind = type(ended.ending)
        if kind is Returned:
            self.done.append(ended)
        elif kind is Failure:
            self.not_done.append(ended)
        else:
            self.snoozed.append(ended)

    def copy(self) -> Outcomes:
        """A shallow copy: assigning a field of this object does not change the copy."""
        return Outcomes(self.done, self.not_done, self.abandoned, self.declined, self.snoozed)

    def requests(self) -> list[LeasedRequest]:
        """The requests that have these outcomes."""
        ended: list[Ended[Any]] = [*self.done, *self.not_done, *self.snoozed]
        leases = [one.lease for one in ended]
        return [lease.request for lease in (*leases, *self.abandoned, *self.declined)]

    def extend(self, more: Outcomes) -> None:
        self.done += more.done
        self.not_done += more.not_done
        self.abandoned += more.abandoned
        self.declined += more.declined
        self.snoozed += more.snoozed

    def halves(self) -> list[Outcomes]:
        """The outcomes of completed and failed requests, in two parts of about the same size."""
        done, not_done = len(self.done) // 2, len(self.not_done) // 2
        return [
            Outcomes(self.done[:done], self.not_done[: len(self.not_done) - not_done]),
            Outcomes(self.done[done:], self.not_done[len(self.not_done) - not_done :]),
        ]
