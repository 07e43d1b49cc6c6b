"""Runs suspects alone, in a worker whose tasks share one process.

A crash ends the process, and counts for each request that runs in it. So a request that the next
crash would make a dead letter runs while no other request does: only a culprit crashes too often.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.worker.attempt import SnoozeAsked
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.claims.outcomes import Ended, Outcomes

#: The longest time, in seconds, for which the worker claims nothing because a suspect waits for the
#: other requests to end, or because a suspect runs.
ALONE_WAIT_SECONDS = 60.0
#: The time for which a suspect is handed back if the other requests have not ended in time. It is
#: several times ALONE_WAIT_SECONDS, so that the worker is busy most of the time.
HANDED_BACK = timedelta(minutes=5)


class Holder(Protocol):
    """The members of the dispatcher that suspects depend on; `Dispatcher` documents them."""

    @property
    def held(self) -> int: ...

    def take(self, leases: list[Lease]) -> None: ...


class Suspects:
    """The suspects that a worker has claimed and not started.

    The receiver's thread calls the methods. Any thread may read `holds_claims`.

    Args:
        is_isolated: whether each slot is a process of its own. Suspects then start like others.
        is_patient: whether to wait for the other requests without a limit.
    """

    def __init__(
        self,
        exchanger: Exchanger,
        leases: Leases,
        slots: Holder,
        *,
        is_isolated: bool,
        is_patient: bool,
    ) -> None:
        self._exchanger = exchanger
        self._leases = leases
        self._slots = slots
        self._is_isolated = is_isolated
        self._patience = math.inf if is_patient else ALONE_WAIT_SECONDS
        self._waiting: deque[Lease] = deque()
        self._until = -math.inf

    @property
    def holds_claims(self) -> bool:
        """Whether the worker may not claim, because a suspect waits or runs."""
        return bool(self._waiting) or (self._slots.held > 0 and now() < self._until)

    def set_aside(self, leases: list[Lease]) -> list[Lease]:
        """Keep the suspects among these leases, and return the others.

        The database is told that the suspects have not started: until then, the others may crash.
        """
        if self._is_isolated or not any(one.request.num_crashes for one in leases):
            return leases
        found = [one for one in leases if one.request.is_suspect]
        if found:
            with suppress(RowleaseError):
                self._leases.report_start(found, has_started=False)
            self._until = now() + self._patience
            self._waiting.extend(found)
        return [one for one in leases if not one.request.is_suspect]

    def due_in(self) -> float:
        """Seconds until `step` has something to do, unless outcomes are delivered earlier."""
        if self._waiting and self._may_start():
            return 0.0
        return max(0.0, self._until - now()) if self.holds_claims else math.inf

    def step(self) -> None:
        """Start the next suspect if nothing else runs. Hand them back if that takes too long.

        Raises:
            RowleaseError: the database does not record the start. The suspect waits.
        """
        while self._waiting and self._waiting[0].lost:
            self._waiting.popleft()
        if not self._waiting:
            return
        if self._may_start():
            lease = self._waiting[0]
            self._leases.report_start([lease], has_started=True)
            self._waiting.popleft()
            if not lease.lost:
                self._until = now() + self._patience
                self._slots.take([lease])
        elif now() >= self._until:
            waited = SnoozeAsked(HANDED_BACK, "it has crashed before, so it waits to run alone")
            held = self._take_all()
            snoozed = [Ended(one, waited, 0.0) for one in held]
            self._exchanger.deliver(Outcomes(snoozed=snoozed), held)

    def abandon(self) -> None:
        """Abandon all, because the worker stops."""
        if held := self._take_all():
            self._exchanger.deliver(Outcomes(abandoned=held), held)

    def _may_start(self) -> bool:
        """Whether no request runs, and no outcome would be lost with the process."""
        return self._slots.held == 0 and self._exchanger.undelivered == 0

    def _take_all(self) -> list[Lease]:
        held = [one for one in self._waiting if not one.lost]
        self._waiting.clear()
        return held
