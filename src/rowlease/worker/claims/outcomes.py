"""The outcomes of requests, from the slots to the database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rowlease.model import Failure, LeasedRequest
from rowlease.worker.attempt import Returned, SnoozeAsked
from rowlease.worker.claims.leases import Lease

#: The maximum number of outcomes that always wait for the next claim. A separate transaction for so
#: few outcomes is not worth its cost.
FEW = 100


class DoneRequest(NamedTuple):
    """A request whose task returned. `result` is JSON text, or None."""

    lease: Lease
    result: str | None
    seconds: float


class NotDone(NamedTuple):
    """A request whose attempt failed."""

    lease: Lease
    failure: Failure
    seconds: float


class SnoozedRequest(NamedTuple):
    """A request that its task has snoozed."""

    lease: Lease
    snoozed: SnoozeAsked
    seconds: float


@dataclass(slots=True, eq=False)  # compared by identity, so that it can be a key
class Outcomes:
    """Outcomes that the database does not have yet."""

    done: list[DoneRequest] = field(default_factory=list)
    not_done: list[NotDone] = field(default_factory=list)
    abandoned: list[Lease] = field(default_factory=list)
    declined: list[Lease] = field(default_factory=list)  # their kinds are unknown to this worker
    snoozed: list[SnoozedRequest] = field(default_factory=list)

    def __len__(self) -> int:
        ended = len(self.done) + len(self.not_done) + len(self.snoozed)
        return ended + len(self.abandoned) + len(self.declined)

    def add(self, lease: Lease, ending: Returned | Failure | SnoozeAsked, seconds: float) -> None:
        """Add the outcome of one attempt."""
        if isinstance(ending, Failure):
            self.not_done.append(NotDone(lease, ending, seconds))
        elif isinstance(ending, SnoozeAsked):
            self.snoozed.append(SnoozedRequest(lease, ending, seconds))
        else:
            self.done.append(DoneRequest(lease, ending.result, seconds))

    def copy(self) -> Outcomes:
        """A shallow copy: assigning a field of this object does not change the copy."""
        return Outcomes(self.done, self.not_done, self.abandoned, self.declined, self.snoozed)

    def requests(self) -> list[LeasedRequest]:
        """The requests that have these outcomes."""
        ended: list[DoneRequest | NotDone | SnoozedRequest] = [
            *self.done,
            *self.not_done,
            *self.snoozed,
        ]
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
