"""Leases: what this worker holds, until when, and the thread that prolongs it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import (
    CancelRequested,
    Events,
    LeaseLost,
    RenewalsLost,
    RenewalsRecovered,
    Renewed,
)
from rowlease.model import LeasedRequest, Outcome
from rowlease.store import Consuming, deadlines
from rowlease.worker.claims.progress import ProgressReporter
from rowlease.worker.retry_policy import RetryPolicy
from rowlease.worker.times import (
    LEASE_MARGIN,
    LEASE_MARGIN_SHARE,
    LONGEST_LOOK,
    LOOKS_PER_LEASE,
    RENEW_FROM,
    RENEW_LEAST,
    RENEW_SHARE,
)

LEASE_OVER = "was given up because the lease of its request could not be renewed in time"


class Runner(Protocol):
    """Runs a request, and is what its lease talks to."""

    def has_begun(self, number: int) -> bool: ...
    def stop(self, number: int) -> None: ...
    def prolong(self, number: int, ends: float) -> None: ...
    def progress(self, number: int) -> tuple[float, str] | None: ...


class Lease:
    """A request that this worker holds.

    Attributes:
        request: as leased.
        task_number: which of the worker's tasks it is for.
        limit: seconds it may run, or None.
        seconds: how long the lease lasts.
        ends: when it is over, by this host's clock; counted from before the claim was sent, so
            never later than in the database.
        lost: somebody else may own the request by now.
        start_emitted: the event of its start has been emitted.
        slot, number: where it was given to, as which one, until that slot has answered.
    """

    __slots__ = (
        "ends",
        "limit",
        "lost",
        "number",
        "request",
        "seconds",
        "slot",
        "start_emitted",
        "task_number",
    )

    def __init__(
        self,
        request: LeasedRequest,
        task_number: int,
        limit: float | None,
        claimed_at: float,
    ) -> None:
        self.request = request
        self.task_number = task_number
        self.limit = limit
        self.seconds = (request.lock_expires_time - request.locked_time).total_seconds()
        self.ends = claimed_at + self.seconds
        self.lost = False
        self.start_emitted = False
        self.slot: Runner | None = None
        self.number = 0

    def has_begun(self) -> bool:
        """Does it run, or has it? Safe from any thread."""
        slot = self.slot
        return slot is not None and slot.has_begun(self.number)

    def overdue(self, since: float, at: float) -> tuple[str | None, float]:
        """Why the task must be ended now, as text, or None; and seconds until to ask again.

        Past its time limit; or before somebody else may own the request: it comes to that when the
        database has been away, or this process has stood still.

        Args:
            since: when it began.
        """
        left = math.inf
        if self.limit is not None:
            left = since + self.limit - at
            if left <= 0:
                limit = timedelta(seconds=self.limit)
                return f"was given up because the task ran past its time limit of {limit}", math.inf
        if not self.lost:
            margin = min(LEASE_MARGIN, self.seconds * LEASE_MARGIN_SHARE)
            left = min(left, self.ends - margin - at)
            if left <= 0:
                return LEASE_OVER, math.inf
        return None, left

    def stop(self) -> None:
        """Ask the task to stop, if it runs. Safe from any thread."""
        if self.has_begun() and (slot := self.slot):
            slot.stop(self.number)

    def progress(self) -> tuple[float, str] | None:
        """The last progress that the task has reported, if it runs. Safe from any thread."""
        return slot.progress(self.number) if (slot := self.slot) else None

    def prolong(self, ends: float) -> None:
        """It has been renewed."""
        self.ends = ends
        if self.has_begun() and (slot := self.slot):
            slot.prolong(self.number, ends)


class Leases:
    """The leases that a worker holds and has no outcome for.

    Safe to use from several threads: the pump adds, the dispatcher drops, `run` renews and
    reports progress.
    """

    def __init__(self, store: Consuming, events: Events) -> None:
        self._store = store
        self._events = events
        self._held: set[Lease] = set()
        self._progress = ProgressReporter(events)
        self._pause = LONGEST_LOOK
        self._stopped = False
        #: Seconds that the shortest lease so far lasts.
        self.shortest = math.inf
        #: Since when renewals do not pass, if they do not. Then nothing must be claimed.
        self.failing_since: float | None = None
        self._patience = RetryPolicy(worked=True)  # what is to be renewed was claimed
        self.num_lost = 0
        self._wake = threading.Event()

    def add(self, leases: Collection[Lease]) -> None:
        """Renew these from now on."""
        self._held.update(leases)
        self.shortest = min([self.shortest, *(lease.seconds for lease in leases)])
        if self.shortest < self._pause * LOOKS_PER_LEASE:
            self._pause = self.shortest / LOOKS_PER_LEASE
            self._wake.set()

    def drop(self, leases: Collection[Lease]) -> None:
        """They are over, one way or the other."""
        self._held.difference_update(leases)

    def requests(self) -> list[LeasedRequest]:
        """What it holds at this moment."""
        return [lease.request for lease in tuple(self._held)]

    def run(self, lost: Callable[[Lease], object], recovered: Callable[[], object]) -> None:
        """Renew until stopped.

        Args:
            lost: called with each lease that was lost.
            recovered: called when renewals pass again.

        Raises:
            RowleaseError: the store refused for longer than a worker bears.
        """
        while not self._stopped:
            self._wake.wait(self._pause)
            self._wake.clear()
            were_failing = self.failing_since is not None
            for lease in self.renew():
                lost(lease)
            if self.failing_since is None:
                if were_failing:
                    recovered()
                self._progress.write(tuple(self._held), self._within())

    def stop(self) -> None:
        """End `run`; what is still held runs out."""
        self._stopped = True
        self._wake.set()

    def renew(self) -> list[Lease]:
        """Renew every lease past a third of its time, in one call for each length of lease.

        A call that fails is made again at the next look; while renewals do not pass, also where no
        lease is due: then it renews nothing, and finds out whether the next one would pass.

        Returns:
            The leases that were lost.
        """
        due = [
            one for one in tuple(self._held) if one.ends - now() < one.seconds * (1 - RENEW_FROM)
        ]
        due.sort(key=lambda one: one.seconds)
        groups = [
            (seconds, list(group)) for seconds, group in groupby(due, key=lambda one: one.seconds)
        ]
        if not due and self.failing_since is not None:
            groups = [(self.shortest, [])]
        lost = []
        for seconds, group in groups:
            asked_at = now()
            try:
                lost += self._renew(group, seconds)
            except RowleaseError as error:
                if not self._patience.bears(error):
                    raise
                self._failed(error, asked_at)
                return lost
            self._passed()
        return lost

    def _failed(self, error: RowleaseError, asked_at: float) -> None:
        if self.failing_since is None:
            self.failing_since = asked_at
            since = datetime.now(UTC) - timedelta(seconds=now() - asked_at)
            self._events.emit(RenewalsLost("renew", since, str(error)))

    def _passed(self) -> None:
        self._patience.answered()
        if self.failing_since is not None:
            since, self.failing_since = self.failing_since, None
            self._events.emit(RenewalsRecovered(now() - since))

    def _within(self) -> Consuming:
        return self._store.within(share(self.shortest, RENEW_SHARE, RENEW_LEAST))

    def _renew(self, leases: list[Lease], seconds: float) -> list[Lease]:
        asked_at = now()
        answers = self._within().renew(
            [one.request for one in leases],
            lease=timedelta(seconds=seconds),
            started=[one.has_begun() for one in leases],
        )
        lost = []
        for lease, answer in zip(leases, answers, strict=True):
            if answer.outcome in (Outcome.OK, Outcome.CANCEL_REQUESTED):
                lease.prolong(asked_at + seconds)
            elif answer.outcome is Outcome.REPEAT:
                lease.prolong(math.inf)  # the task itself has completed it, and goes on
            elif answer.outcome is not Outcome.BUSY and lease in self._held:
                # Busy: somebody finishes it just now. Not held: it was finished meanwhile.
                lease.lost = True
                lease.stop()
                lost.append(lease)
                self._events.emit(LeaseLost(lease.request, answer.outcome))
            if answer.outcome is Outcome.CANCEL_REQUESTED:
                lease.stop()
                self._events.emit(CancelRequested(lease.request))
        if not leases:
            return []
        self.drop(lost)
        self.num_lost += len(lost)
        self._events.emit(Renewed(len(leases) - len(lost)))
        return lost


def share(lease: float, of: float, least: float) -> timedelta:
    """How long a call may take where the shortest lease lasts so many seconds."""
    return min(deadlines.CALL, timedelta(seconds=max(least, min(lease, 1e6) * of)))
