"""The outcomes of requests, from the slots to the database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from rowlease.model import Failure, LeasedRequest
from rowlease.worker.attempt import Ending, Returned, SnoozeAsked
from rowlease.worker.claims.leases import Lease

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
