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
from rowlease.worker.attempt import Ending, NotRun
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import LEASE_OVER, Lease
from rowlease.worker.claims.outcomes import Ended, Outcomes
from rowlease.worker.slots.slot import Death, Runner, Slots
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
#: Seconds after which a request that was taken back from its slot has certainly arrived.
RECALL_SECONDS = 1.0
#: Seconds in which outcomes of short requests gather, because one delivery costs less than many.
GATHER = 0.0005


class Dispatcher:
    """Gives leased requests to the slots, and passes their outcomes to the exchanger.

    Any thread may read the attributes, and call the methods under "for other threads" below. All
    other methods belong to the thread that called `Worker.run`.

    Args:
        prefetch: the maximum number of requests to prefetch for each slot.
        cancel_grace: the seconds between a cancel and the end of the task.

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
        cancel_grace: float,
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
        self._cancel_grace = cancel_grace
        self._cancels: deque[tuple[Lease, bool]] = deque()
        #: When to end the tasks of cancelled requests.
        self._cancelled: dict[Lease, float] = {}
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

    def cancel(self, lease: Lease, kills: bool) -> None:
        """Ask the task of a cancelled request to stop, and end it when its time is over.

        A request that has not begun is abandoned.
        """
        lease.stop()
        self._cancels.append((lease, kills))
        self._recall = self._recall or not lease.has_begun()
        self._slots.wake()

    def busy(self) -> int:
        """The number of slots that hold requests."""
        return sum(one.num_busy for one in tuple(self._slots.runners))

    def num_ready(self) -> int:
        """The number of slots that can run tasks."""
        return sum(one.num_slots for one in tuple(self._slots.runners))

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
        if draining or all(map(is_blocked, self._slots.runners)):
            self._abandon_backlog()
        elif self._backlog:
            self._give(at)
            self._abandon_backlog(keep=2 * self.capacity)
            pause = min(pause, START_CHECK_PAUSE)
        self._report()
        self._measure()
        changed()
        if self.ahead and self.held > 2 * sum(one.num_slots for one in self._slots.runners):
            time.sleep(GATHER)
        if draining and not self.held:
            pause = DRAINED_PAUSE  # the worker ends as soon as the receiver stops claiming
        self._poll(max(0.0, min(pause, longest)))

    def _poll(self, pause: float) -> None:
        ended, deaths = self._slots.poll(pause)
        self._settle(ended)
        for death in deaths:
            self._settle_death(death)

    def give_up(self) -> None:
        """Kill the tasks that are still running, and abandon every request."""
        self._poll(0.0)
        for one in (each for each in self._slots.runners if each.load):
            ran, others = one.give_up()
            self._backlog += [*ran, *others]
        while self._inbox:
            self._backlog += self._inbox.popleft()
        self._abandon_backlog()
        self._report()

    def _check_slots(self, at: float, draining: bool) -> float:
        """Check time limits and blocked slots. Return the seconds until the next check."""
        pause = STEP
        recall, self._recall = draining or self._recall, False
        for one in self._slots.runners:
            if one.take_back_at is not None and at >= one.take_back_at:
                self._backlog.extendleft(reversed(one.finish_take_back()))
            one.num_blocked = 0
            for lease, since in one.running():
                if draining:
                    lease.stop()
                why, left = lease.overdue(since, at)
                if why:
                    one.end(lease, why)
                if (blocks_in := since + SLOT_SECONDS - at) <= 0:
                    one.num_blocked += 1
                else:
                    left = min(left, blocks_in)
                pause = min(pause, left)
            too_much = recall or is_blocked(one) or one.load > 2 * one.num_slots * (1 + self.ahead)
            if one.load > one.num_busy and one.take_back_at is None and too_much:
                one.start_take_back(at)
            if one.take_back_at is not None:
                pause = min(pause, one.take_back_at - at)
        if self._cancels or self._cancelled:
            pause = min(pause, self._end_cancelled(at))
        return max(0.0, pause)

    def _end_cancelled(self, at: float) -> float:
        """End the tasks of cancelled requests. Return the seconds until the next check."""
        pause = STEP
        running = {lease: one for one in self._slots.runners for lease, _ in one.running()}
        while self._cancels:
            lease, kills = self._cancels.popleft()
            ends = at if kills else at + self._cancel_grace
            self._cancelled[lease] = min(ends, self._cancelled.get(lease, math.inf))
        for lease, ends in tuple(self._cancelled.items()):
            if runner := running.get(lease):
                lease.stop()  # it may have begun after `cancel`
                if at >= ends or runner.cancels(lease):
                    runner.end(lease, "was given up because its request was cancelled")
                else:
                    pause = min(pause, ends - at)
            elif lease in self._backlog:
                del self._cancelled[lease]
                self._backlog.remove(lease)
                self._abandon(lease)
            elif lease.has_begun() or at >= ends + RECALL_SECONDS:
                del self._cancelled[lease]  # it has ended
            else:
                pause = min(pause, START_CHECK_PAUSE)  # it is about to begin, or comes back
        return pause

    # -- what comes in ---------------------------------------------------------------------------

    def _give(self, at: float) -> None:
        """Distribute the backlog over the runners that have room, idle ones first."""
        room = {
            one: int(min(one.num_slots * (1 + self.ahead) - one.load, one.num_left))
            for one in sorted(self._slots.runners, key=lambda each: each.load)
            if one.num_slots > one.num_blocked and one.take_back_at is None
        }
        turns = [one for one in room if room[one] > 0]
        shares: dict[Runner, list[Lease]] = {one: [] for one in turns}
        batch = self._next(at, sum(room[one] for one in turns))
        while batch:
            rounds = min(len(batch) // len(turns), *(room[one] for one in turns)) or 1
            dealt, batch = batch[: rounds * len(turns)], batch[rounds * len(turns) :]
            for turn, one in enumerate(turns):
                shares[one] += dealt[turn :: len(turns)]
                room[one] -= rounds
            turns = [one for one in turns if room[one] > 0]
        for one, share in shares.items():
            if share:
                starting = share[: one.num_idle] if self._emits_started else ()
                one.give(share)
                for lease in starting:
                    self._emit_started(lease)

    def _next(self, at: float, count: int) -> list[Lease]:
        """Remove and return the first requests of the backlog that may still be started."""
        found: list[Lease] = []
        while self._backlog and (missing := count - len(found)) > 0:
            first = [self._backlog.popleft() for _ in range(min(missing, len(self._backlog)))]
            good = [lease for lease in first if lease.ends > at and not lease.lost]
            found += good
            for lease in set(first).difference(good) if len(good) < len(first) else ():
                self._abandon(lease)
        return found

    def _measure(self) -> None:
        """Compute the capacity, which the receiver reads."""
        fit = int(SLOT_SECONDS / max(self._average, 1e-6))
        self.ahead = min(self._prefetch, max(0, fit - 1), self._answered)
        num_slots = num_unblocked = num_idle = 0
        for one in self._slots.runners:
            num_slots += one.num_slots
            num_unblocked += max(0, one.num_slots - one.num_blocked)
            num_idle += one.num_idle
        self.capacity = num_slots + self.ahead * num_unblocked
        self.idle = max(0, num_idle - len(self._backlog))

    # -- what comes out --------------------------------------------------------------------------

    def _settle(self, ended: Sequence[Ended[Ending]]) -> None:
        again: list[Lease] = []
        ran = 0.0
        for one in ended:
            lease = one.lease
            if type(one.ending) is NotRun:
                again.append(lease)
                continue
            if self._emits_started:
                self._emit_started(lease)
            self._over.append(lease)
            ran += one.seconds
            if not lease.lost:
                self._outcomes.add(one)
        self.task_seconds += ran
        if count := len(ended) - len(again):
            rest = (1.0 - WEIGHT) ** count if self._average < math.inf else 0.0
            self._average = ran / count + (rest and (self._average - ran / count) * rest)
        self._backlog.extendleft(reversed(again))
        if self._emits_started:
            for runner in self._slots.runners:
                for lease in runner.next_up():
                    self._emit_started(lease)

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
                    why = f"the {self._slots.unit} running this request {death.how}"
                    failure = Failure(why, lease.retry_pause)
                    self._outcomes.not_done.append(Ended(lease, failure, seconds))
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


def is_blocked(runner: Runner) -> bool:
    """Whether all slots of a runner have been running one request for a long time."""
    return 0 < runner.num_slots <= runner.num_blocked
