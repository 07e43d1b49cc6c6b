"""Leases: what this worker holds, until when, and the thread that prolongs it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from itertools import groupby
from typing import Protocol

from rowlease.errors import StoreError
from rowlease.events import CancelRequested, Events, LeaseLost, ProgressKept, Renewed
from rowlease.model import LeasedRequest, Outcome
from rowlease.store import Store
from rowlease.worker.child import now

#: Seconds between two looks at the leases; less where leases are short.
LONGEST_PAUSE = 1.0
#: A lease is looked at so many times; it is renewed at the first look past a third of its time.
LOOKS_PER_LEASE = 12
#: Seconds before the end of a lease at which the task is killed, if it was not renewed; less where
#: leases are short.
LEASE_MARGIN, LEASE_MARGIN_SHARE = 1.0, 0.05
LEASE_OVER = "was given up because the lease of its request could not be renewed in time"


class Slot(Protocol):
    """Where a request runs."""

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
            never later than the database says.
        lost: somebody else may own the request by now.
        told: its start has been told as an event.
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
        "task_number",
        "told",
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
        self.told = False
        self.slot: Slot | None = None
        self.number = 0

    def has_begun(self) -> bool:
        """Does it run, or has it? Safe from any thread."""
        slot = self.slot
        return slot is not None and slot.has_begun(self.number)

    def overdue(self, since: float, at: float) -> tuple[str | None, float]:
        """Why the task must be ended now, in words, or None; and seconds until to ask again.

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
        """What the task has said of itself last, if it runs. Safe from any thread."""
        return slot.progress(self.number) if (slot := self.slot) else None

    def prolong(self, ends: float) -> None:
        """It has been renewed."""
        self.ends = ends
        if self.has_begun() and (slot := self.slot):
            slot.prolong(self.number, ends)


class Leases:
    """The leases that a worker holds and has no outcome for.

    Safe to use from several threads: the pump adds, the dispatcher drops, `run` renews and tells
    of progress.
    """

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self._held: set[Lease] = set()
        self._told: dict[Lease, tuple[float, str]] = {}
        self._pause = LONGEST_PAUSE
        self._stopped = False
        self.num_lost = 0
        self._wake = threading.Event()

    def add(self, leases: Collection[Lease]) -> None:
        """Renew these from now on."""
        self._held.update(leases)
        shortest = min((lease.seconds for lease in leases), default=math.inf)
        if shortest < self._pause * LOOKS_PER_LEASE:
            self._pause = shortest / LOOKS_PER_LEASE
            self._wake.set()

    def drop(self, leases: Collection[Lease]) -> None:
        """They are over, one way or the other."""
        self._held.difference_update(leases)

    def run(self, lost: Callable[[Lease], object]) -> None:
        """Renew until stopped.

        Args:
            lost: called with each lease that was lost.

        Raises:
            StoreError: the store refused, and not just for now.
        """
        while not self._stopped:
            self._wake.wait(self._pause)
            self._wake.clear()
            for lease in self.renew():
                lost(lease)
            self.tell_progress()

    def stop(self) -> None:
        """End `run`; what is still held runs out."""
        self._stopped = True
        self._wake.set()

    def renew(self) -> list[Lease]:
        """Renew every lease past a third of its time, in one call for each length of lease.

        Calls that fail for now are made again at the next look: a lease has time for several.

        Returns:
            The leases that were lost.
        """
        due = [one for one in tuple(self._held) if one.ends - now() < one.seconds * 2 / 3]
        due.sort(key=lambda one: one.seconds)
        lost = []
        for seconds, group in groupby(due, key=lambda one: one.seconds):
            try:
                lost += self._renew(list(group), seconds)
            except StoreError as error:
                if not error.transient:
                    raise
        return lost

    def tell_progress(self) -> None:
        """Write down what running tasks have said of themselves since it was last written.

        Where the database is away it is told at the next look.
        """
        said = {one: words for one in tuple(self._held) if (words := one.progress())}
        news = [
            (one.request, *words) for one, words in said.items() if self._told.get(one) != words
        ]
        try:
            if news:
                self._events.emit(ProgressKept(self._store.report_progress(news)))
        except StoreError as error:
            if not error.transient:
                raise
        else:
            self._told = said

    def _renew(self, leases: list[Lease], seconds: float) -> list[Lease]:
        asked_at = now()
        answers = self._store.renew(
            [one.request for one in leases],
            lease=timedelta(seconds=seconds),
            started=[one.has_begun() for one in leases],
        )
        lost = []
        for lease, answer in zip(leases, answers, strict=True):
            if answer.outcome in (Outcome.OK, Outcome.CANCEL_REQUESTED):
                lease.prolong(asked_at + seconds)
            elif answer.outcome is not Outcome.BUSY and lease in self._held:
                # Busy: somebody finishes it just now. Not held: it was finished meanwhile.
                lease.lost = True
                lease.stop()
                lost.append(lease)
                self._events.emit(LeaseLost(lease.request, answer.outcome))
            if answer.outcome is Outcome.CANCEL_REQUESTED:
                lease.stop()
                self._events.emit(CancelRequested(lease.request))
        self.drop(lost)
        self.num_lost += len(lost)
        self._events.emit(Renewed(len(leases) - len(lost)))
        return lost
