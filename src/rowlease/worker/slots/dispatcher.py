"""The dispatcher gives requests to a fixed number of slots and collects their outcomes.

The dispatcher runs in the thread that called `Worker.run`. This thread never calls the database, so
it enforces time limits and reads answers even if the database is unavailable.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

from rowlease.clock import now
from rowlease.events import Events, Started
from rowlease.model import Failure
from rowlease.worker.attempt import NotRun
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import LEASE_OVER, Lease
from rowlease.worker.claims.outcomes import NotDone, Outcomes
from rowlease.worker.slots.slot import Answer, Death, Slot, Slots
from rowlease.worker.timings import STEP

#: Seconds of work that a slot holds. This is enough to hide the round trip of a claim, but so
#: little that no other worker could run the work much earlier. If a slot holds more than twice this
#: amount, or has been running a request for this time, the dispatcher takes back the requests that
#: the slot has not begun.
SLOT_SECONDS = 0.2
#: The weight of the latest request in the moving average of run times.
WEIGHT = 0.05
#: The longest wait while requests are in the backlog, in seconds.
START_CHECK_PAUSE = 0.02
#: The wait of a draining worker that holds no request, in seconds.
DRAINED_PAUSE = 0.005
#: Seconds in which outcomes of short requests gather, because one delivery costs less than many.
GATHER = 0.0005


class Dispatcher:
    """Gives leased requests to the slots, and passes their outcomes to the exchanger.

    Any thread may read the attributes, and call the methods under "for other threads" below. All
    other methods belong to the thread that called `Worker.run`.

    Args:
        prefetch: the maximum number of requests to prefetch for each slot.

    Attributes:
        capacity: the number of requests that the slots can hold now, including those they hold.
        ahead: the number of requests to prefetch for each slot now.
        idle: the number of further requests that would start at once.
        task_seconds: the total run time of all tasks that have ended.
        stepped_at: when the last step began.
    """

    def __init__(
        self,
        slots: Slots,
        exchanger: Exchanger,
        events: Events,
        *,
        prefetch: int,
    ) -> None:
        self._slots = slots
        self._exchanger = exchanger
        self._events = events
        self._emits_started = events.has_subscriber(Started)
        self._prefetch = prefetch
        self._inbox: deque[list[Lease]] = deque()
        self._backlog: deque[Lease] = deque()
        self._outcomes = Outcomes()
        self._over: list[Lease] = []
        self._recall = False
        self._accepted = 0
        self._answered = 0
        self._average = math.inf  # run time of a request in seconds; unknown until the first ends
        self.task_seconds = 0.0
        self.stepped_at = now()
        self.capacity = 0
        self.ahead = 0
        self.idle = 0

    # -- for other threads -----------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The number of accepted requests whose outcomes the exchanger does not have yet."""
        return self._accepted - self._answered

    def take(self, leases: Sequence[Lease]) -> None:
        """Accept these requests, to give them to the slots in this order."""
        self._accepted += len(leases)
        self._inbox.append(list(leases))
        self._slots.wake()

    def lost(self, lease: Lease) -> None:
        """Drop this request if it has not begun, because its lease is lost."""
        if not lease.has_begun():
            self._recall = True
            self._slots.wake()

    def busy(self) -> int:
        """The number of slots that hold requests."""
        return sum(one.load > 0 for one in tuple(self._slots.children))

    def num_ready(self) -> int:
        """The number of slots that can run tasks."""
        return sum(one.ready for one in tuple(self._slots.children))

    # -- the loop --------------------------------------------------------------------------------

    def step(
        self,
        changed: Callable[[], object],
        *,
        draining: bool = False,
        longest: float = STEP,
    ) -> None:
        """Give requests to slots, pass outcomes to the exchanger, and wait for answers of slots.

        Args:
            changed: a function that is called before the wait, because the capacity may have
                changed and the exchanger may have new outcomes.
            draining: whether to start no requests, and abandon those that have not begun.
            longest: the longest wait, in seconds.
        """
        self.stepped_at = at = now()
        while self._inbox:
            self._backlog += self._inbox.popleft()
        pause = self._check_slots(at, draining)
        if draining or all(one.is_blocked for one in self._slots.children):
            self._abandon_backlog()
        elif self._backlog:
            self._give(at)
            self._abandon_backlog(keep=2 * self.capacity)
            pause = min(pause, START_CHECK_PAUSE)
        self._report()
        self._measure()
        changed()
        if self.ahead and self.held > 2 * len(self._slots.children):
            time.sleep(GATHER)
        if draining and not self.held:
            pause = DRAINED_PAUSE  # the worker ends as soon as the receiver stops claiming
        self._poll(max(0.0, min(pause, longest)))

    def _poll(self, pause: float) -> None:
        answers, deaths = self._slots.poll(pause)
        self._settle(answers)
        for death in deaths:
            self._settle_death(death)

    def give_up(self) -> None:
        """Kill the tasks that are still running, and abandon every request."""
        self._poll(0.0)
        for one in (each for each in self._slots.children if each.load):
            one.kill()
            running, others = one.take_unfinished()
            self._backlog += [*([running[0]] if running else []), *others]
        while self._inbox:
            self._backlog += self._inbox.popleft()
        self._abandon_backlog()
        self._report()

    def _check_slots(self, at: float, draining: bool) -> float:
        """Check time limits and blocked slots. Return the seconds until the next check."""
        pause = STEP
        recall, self._recall = draining or self._recall, False
        for one in self._slots.children:
            if one.take_back_at is not None and at >= one.take_back_at:
                self._backlog.extendleft(reversed(one.finish_take_back()))
            ran = -1.0
            if running := one.running():
                lease, since = running
                ran = at - since
                if draining:
                    lease.stop()
                reason, left = lease.overdue(since, at)
                if reason and one.end_reason is None:
                    one.end_reason = reason
                    one.kill()
                pause = min(pause, left)
            one.is_blocked = ran >= SLOT_SECONDS
            if 0 <= ran < SLOT_SECONDS:
                pause = min(pause, SLOT_SECONDS - ran)
            too_much = recall or one.is_blocked or one.load > 2 * (1 + self.ahead)
            if one.load > 1 and one.take_back_at is None and too_much:
                one.start_take_back(at)
            if one.take_back_at is not None:
                pause = min(pause, one.take_back_at - at)
        return max(0.0, pause)

    # -- what comes in ---------------------------------------------------------------------------

    def _give(self, at: float) -> None:
        """Distribute the backlog over the slots that have room, idle slots first."""
        room = 1 + self.ahead
        open_slots = [one for one in self._slots.children if one.is_open and one.load < room]
        turns = deque(sorted(open_slots, key=lambda one: one.load))
        shares: dict[Slot, list[Lease]] = {one: [] for one in turns}
        while turns and (lease := self._next(at)):
            one = turns.popleft()
            shares[one].append(lease)
            if one.load + len(shares[one]) < room:
                turns.append(one)
        for one, share in shares.items():
            if share:
                was_idle = one.load == 0
                one.give(share)
                if self._emits_started and was_idle:
                    self._emit_started(share[0])

    def _next(self, at: float) -> Lease | None:
        """Remove and return the first request of the backlog that may still be started."""
        while self._backlog:
            lease = self._backlog.popleft()
            if lease.lost:
                self._over.append(lease)
            elif lease.ends <= at:
                self._abandon(lease)
            else:
                return lease
        return None

    def _measure(self) -> None:
        """Compute the capacity, which the receiver reads."""
        fit = int(SLOT_SECONDS / max(self._average, 1e-6))
        self.ahead = min(self._prefetch, max(0, fit - 1), self._answered)
        usable = [one for one in self._slots.children if one.ready and one.end_reason is None]
        num_unblocked = sum(not one.is_blocked for one in usable)
        self.capacity = len(usable) + self.ahead * num_unblocked
        self.idle = max(0, sum(one.load == 0 for one in usable) - len(self._backlog))

    # -- what comes out --------------------------------------------------------------------------

    def _settle(self, answers: Sequence[Answer]) -> None:
        again = []
        average = self._average
        for _, lease, ending, seconds in answers:
            if isinstance(ending, NotRun):
                again.append(lease)
                continue
            if self._emits_started:
                self._emit_started(lease)
            self._over.append(lease)
            self.task_seconds += seconds
            average = seconds if average == math.inf else average + (seconds - average) * WEIGHT
            if lease.lost:
                continue
            self._outcomes.add(lease, ending, seconds)
        self._average = average
        self._backlog.extendleft(reversed(again))
        if self._emits_started:
            for slot in {answer.slot for answer in answers}:
                if slot.held and (head := slot.held[0]):
                    self._emit_started(head)

    def _emit_started(self, lease: Lease) -> None:
        if not lease.start_emitted:
            lease.start_emitted = True
            self._events.emit(Started(lease.request))

    def _settle_death(self, death: Death) -> None:
        """Fail the request that a dead slot was running. Other slots get the slot's other requests.

        This does not raise the request's `num_crashes`, which counts only leases that ran out.
        """
        if death.running:
            lease, seconds = death.running
            self.task_seconds += seconds
            self._emit_started(lease)
            if death.how == LEASE_OVER:
                self._abandon(lease)  # the task is not at fault
            else:
                self._over.append(lease)
                if not lease.lost:
                    failure = Failure(f"the {self._slots.unit} running this request {death.how}")
                    self._outcomes.not_done.append(NotDone(lease, failure, seconds))
        self._backlog.extendleft(reversed(death.others))

    def _abandon(self, lease: Lease) -> None:
        self._over.append(lease)
        if not lease.lost:
            self._outcomes.abandoned.append(lease)

    def _abandon_backlog(self, keep: int = 0) -> None:
        """Abandon all requests of the backlog except the first `keep`."""
        for lease in reversed([self._backlog.pop() for _ in range(keep, len(self._backlog))]):
            self._abandon(lease)

    def _report(self) -> None:
        if self._over:
            over, self._over = self._over, []
            outcomes, self._outcomes = self._outcomes, Outcomes()
            self._exchanger.deliver(outcomes, over)
            # Must follow `deliver`: a request that no longer counts as held was passed on.
            self._answered += len(over)
