"""The leases that this worker holds, and the loop that renews them and writes their progress."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Protocol

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import (
    CancelRequested,
    Events,
    LeaseLostEvent,
    ProgressKept,
    RenewalsLost,
    RenewalsRecovered,
    Renewed,
)
from rowlease.model import LeasedRequest, Outcome
from rowlease.store import Store, deadlines
from rowlease.worker.calls import CallRetryPolicy, ascii_only, is_caused_by_data
from rowlease.worker.timings import (
    BUSY_PAUSE,
    CHECKS_PER_LEASE,
    LEASE_MARGIN,
    LEASE_MARGIN_SHARE,
    LONGEST_CHECK_PAUSE,
    RENEW_AFTER,
    RENEW_TIMEOUT_LEAST,
    RENEW_TIMEOUT_SHARE,
)


class Running(Protocol):
    """The members of a lease that the reporter uses."""

    request: LeasedRequest

    def progress(self) -> tuple[float, str] | None: ...


class ProgressReporter:
    """Writes the progress of tasks if it has changed since the last call of `write`."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._written: dict[Running, tuple[float, str]] = {}

    def write(self, held: Collection[Running], store: Store) -> None:
        """Write the progress that running tasks have reported since the last call.

        If the database is unavailable, nothing is written, and the next call tries again with the
        latest progress. Progress that the database refuses is skipped: no other data depends on it.
        """
        latest = {one: progress for one in held if (progress := one.progress())}
        changed = [
            (one.request, *progress)
            for one, progress in latest.items()
            if self._written.get(one) != progress
        ]
        try:
            if changed:
                self._events.emit(ProgressKept(_report(changed, store)))
        except RowleaseError:
            return
        self._written = latest


def _report(changed: list[tuple[LeasedRequest, float, str]], store: Store) -> int:
    """Write all reports in one call. If this call is refused, write each report alone, in ASCII."""
    try:
        return store.report_progress(changed)
    except Exception as error:
        if not is_caused_by_data(error):
            raise
    kept = 0
    for request, fraction, note in changed:
        try:
            kept += store.report_progress([(request, fraction, ascii_only(note))])
        except Exception as error:
            if not is_caused_by_data(error):
                raise
    return kept


#: How many ids of cancelled requests are kept that this worker does not hold.
MAX_UNHELD = 1000
LEASE_OVER = "was given up because the lease of its request could not be renewed in time"


class LeaseRunner(Protocol):
    """What a lease needs of the runner of its request; `Runner` in `slots.slot` is the rest."""

    def has_begun(self, number: int) -> bool: ...
    def stop(self, number: int) -> None: ...
    def prolong(self, number: int, ends: float) -> None: ...
    def progress(self, number: int) -> tuple[float, str] | None: ...


class Lease:
    """A lease that this worker holds on a request.

    Attributes:
        request: the request, as claimed.
        task_number: the index of the request's task among the worker's tasks.
        limit: the task's time limit in seconds, or None.
        retry_pause: the task's pause after a failed attempt, or None.
        seconds: how long the lease lasts.
        ends: when the lease ends, by `clock.now`. This time is counted from the moment before the
            claim was sent, so it is never later than the end in the database.
        cancelled: whether its request was cancelled while it ran.
        lost: whether another worker may have claimed the request.
        start_emitted: whether the event `Started` has been emitted.
        runner: the runner that holds the request; None while none does.
        number: the request's number in that runner.
    """

    __slots__ = (
        "cancelled", "ends", "limit", "lost", "number", "request", "retry_pause", "runner",
        "seconds", "start_emitted", "task_number",
    )  # fmt: skip

    def __init__(
        self,
        request: LeasedRequest,
        task_number: int,
        limit: float | None,
        claimed_at: float,
        retry_pause: timedelta | None = None,
    ) -> None:
        self.request = request
        self.task_number = task_number
        self.limit = limit
        self.retry_pause = retry_pause
        self.seconds = (request.lock_expires_time - request.locked_time).total_seconds()
        self.ends = claimed_at + self.seconds
        self.cancelled = False
        self.lost = False
        self.start_emitted = False
        self.runner: LeaseRunner | None = None
        self.number = 0

    def has_begun(self) -> bool:
        """Whether the task has been started. Safe from any thread."""
        runner = self.runner
        return runner is not None and runner.has_begun(self.number)

    def overdue(self, since: float, at: float) -> tuple[str | None, float]:
        """Check whether the task must be ended now.

        A task must be ended if it exceeds its time limit, or if its lease is about to end. The
        latter happens after an outage of the database, or if this process was stopped for a while.

        Args:
            since: when the task began.
            at: the present time, by the same clock.

        Returns:
            The reason to end the task, or None if the task may go on; and the number of seconds
            until the next check.
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
        """Ask the task to stop if it is running. Safe from any thread."""
        if self.has_begun() and (runner := self.runner):
            runner.stop(self.number)

    def progress(self) -> tuple[float, str] | None:
        """The last progress that the running task has reported. Safe from any thread."""
        return runner.progress(self.number) if (runner := self.runner) else None

    def prolong(self, ends: float) -> None:
        """Record a renewal."""
        self.ends = ends
        if self.has_begun() and (runner := self.runner):
            runner.prolong(self.number, ends)


class Leases:
    """The leases of requests that have no outcome yet.

    Safe to use from several threads: the exchanger adds leases, the dispatcher drops them, and
    `run` renews them and writes progress.
    """

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        self._held: set[Lease] = set()
        self._progress = ProgressReporter(events)
        self._pause = LONGEST_CHECK_PAUSE
        self._stopped = False
        #: The length of the shortest lease so far, in seconds.
        self.shortest = math.inf
        #: When renewals began to fail; None while they succeed. While they fail, the worker claims
        #: nothing.
        self.failing_since: float | None = None
        self._retry_policy = CallRetryPolicy(worked=True)  # a claim succeeded before any renewal
        self.num_lost = 0
        self._wake = threading.Event()
        self._named: deque[int] = deque()
        self._unheld: deque[int] = deque(maxlen=MAX_UNHELD)
        self._cancelled: Callable[[Lease, bool], object] = lambda lease, kills: lease.stop()

    def add(self, leases: Collection[Lease]) -> None:
        """Start to renew these leases."""
        self._held.update(leases)
        if self._unheld:
            self.check({one.request.request_id for one in leases}.intersection(self._unheld.copy()))
        self.shortest = min([self.shortest, *(lease.seconds for lease in leases)])
        if self.shortest < self._pause * CHECKS_PER_LEASE:
            self._pause = self.shortest / CHECKS_PER_LEASE
            self._wake.set()

    def drop(self, leases: Collection[Lease]) -> None:
        """Stop renewing these leases: they are lost, or their requests have outcomes."""
        self._held.difference_update(leases)

    def requests(self) -> list[LeasedRequest]:
        """The requests held at this moment."""
        return [lease.request for lease in tuple(self._held)]

    def check(self, request_ids: Collection[int] | None) -> None:
        """Renew the leases of these requests now, which tells whether they are cancelled or lost.

        Those that a claim has not returned yet follow. None means all. Safe from any thread.
        """
        named = {one.request_id for one in self.requests()}
        if request_ids is not None:
            self._unheld.extend(set(request_ids) - named)
            named.intersection_update(request_ids)
        if named:
            self._named.extend(named)
            self._wake.set()

    def run(
        self,
        lost: Callable[[Lease], object],
        cancelled: Callable[[Lease, bool], object],
        recovered: Callable[[], object],
    ) -> None:
        """Renew leases until stopped.

        Args:
            lost: a function that is called with each lease that was lost.
            cancelled: a function that is called at each renewal of a request that is cancelled,
                with its lease and whether to end its task at once.
            recovered: a function that is called when renewals succeed again.

        Raises:
            RowleaseError: the database has refused renewals for a minute.
        """
        self._cancelled = cancelled
        while not self._stopped:
            is_busy = self._named and self.failing_since is None
            self._wake.wait(min(self._pause, BUSY_PAUSE) if is_busy else self._pause)
            self._wake.clear()
            were_failing = self.failing_since is not None
            for lease in self.renew():
                lost(lease)
            if self.failing_since is None:
                if were_failing:
                    recovered()
                self._progress.write(tuple(self._held), self._store_with_timeout())

    def stop(self) -> None:
        """Ask `run` to end. Leases that are still held will run out."""
        self._stopped = True
        self._wake.set()

    def renew(self) -> list[Lease]:
        """Renew every lease after a third of its time. Leases of equal length share one call.

        A call that fails is repeated at the next check. While renewals fail, each check makes a
        call even if no lease is due: renewing nothing shows whether the database accepts renewals
        again.

        Returns:
            The leases that were lost.
        """
        named = {self._named.popleft() for _ in range(len(self._named))}
        due = [
            one
            for one in tuple(self._held)
            if one.ends - now() < one.seconds * (1 - RENEW_AFTER) or one.request.request_id in named
        ]
        groups = _by_length(due)
        if not due and self.failing_since is not None:
            groups = [(self.shortest, [])]
        lost = []
        for seconds, group in groups:
            asked_at = now()
            try:
                lost += self._renew(group, seconds, [one.has_begun() for one in group])
            except RowleaseError as error:
                if not self._retry_policy.tolerates(error):
                    raise
                self._record_failure(error, asked_at)
                self._named.extend(named)
                return lost
            self._record_success()
        return lost

    def report_start(self, leases: Sequence[Lease], *, has_started: bool) -> None:
        """Renew these leases, and say whether their requests have started.

        Raises:
            RowleaseError: the database did not answer, or refused.
        """
        for seconds, group in _by_length(leases):
            self._renew(group, seconds, [has_started] * len(group))

    def _record_failure(self, error: RowleaseError, asked_at: float) -> None:
        if self.failing_since is None:
            self.failing_since = asked_at
            since = datetime.now(UTC) - timedelta(seconds=now() - asked_at)
            self._events.emit(RenewalsLost("renew", since, str(error)))

    def _record_success(self) -> None:
        self._retry_policy.answered()
        if self.failing_since is not None:
            since, self.failing_since = self.failing_since, None
            self._events.emit(RenewalsRecovered(now() - since))

    def _store_with_timeout(self) -> Store:
        return self._store.within(
            call_timeout(self.shortest, RENEW_TIMEOUT_SHARE, RENEW_TIMEOUT_LEAST)
        )

    def _renew(self, leases: list[Lease], seconds: float, have_started: list[bool]) -> list[Lease]:
        asked_at = now()
        answers = self._store_with_timeout().renew(
            [one.request for one in leases],
            lease=timedelta(seconds=seconds),
            started=have_started,
        )
        lost = []
        for lease, answer in zip(leases, answers, strict=True):
            if answer.outcome in (Outcome.OK, Outcome.CANCEL_REQUESTED):
                lease.prolong(asked_at + seconds)
            elif answer.outcome is Outcome.REPEAT:
                # The task has completed the request itself and goes on running.
                lease.prolong(math.inf)
            elif answer.outcome is Outcome.BUSY:
                # Another call is finishing the request at this moment, or is cancelling it.
                self._named.append(lease.request.request_id)
            elif lease in self._held:
                # If a lease is no longer held, its request got an outcome during this call.
                lease.lost = True
                lease.stop()
                lost.append(lease)
                self._events.emit(LeaseLostEvent(lease.request, answer.outcome))
            if answer.outcome is Outcome.CANCEL_REQUESTED:
                lease.cancelled = True
                self._cancelled(lease, answer.kills)
                self._events.emit(CancelRequested(lease.request))
        if not leases:
            return []
        self.drop(lost)
        self.num_lost += len(lost)
        self._events.emit(Renewed(len(leases) - len(lost)))
        return lost


def _by_length(leases: Iterable[Lease]) -> list[tuple[float, list[Lease]]]:
    ordered = sorted(leases, key=lambda one: one.seconds)
    return [(seconds, list(group)) for seconds, group in groupby(ordered, lambda one: one.seconds)]


def call_timeout(lease: float, of: float, least: float) -> timedelta:
    """The deadline of a call: a share of the shortest lease, but at most `deadlines.CALL`.

    Args:
        lease: the length of the shortest lease, in seconds.
        of: the share of the lease.
        least: the shortest deadline, in seconds, however short the lease is.
    """
    return min(deadlines.CALL, timedelta(seconds=max(least, min(lease, 1e6) * of)))
