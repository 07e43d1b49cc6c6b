"""The dispatcher: who runs what in a fixed number of slots.

It runs in the thread that called `Worker.run`, which never waits for the database: running tasks,
their time limits and their ends are looked after while it is away.
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
from rowlease.worker.claims.leases import LEASE_OVER, Lease
from rowlease.worker.claims.outcomes import NotDone, Outcomes
from rowlease.worker.claims.pump import Pump
from rowlease.worker.slots.slot import Answer, Death, Slot, Slots
from rowlease.worker.times import STEP

#: Seconds of work that a slot holds: enough to hide a claim's round trip, short enough not to be
#: missed elsewhere. More than twice that, or what is behind a request that runs as long, is taken
#: back; such a request took twice the average, or nothing would be prefetched.
SLOT_SECONDS = 0.2
#: Weight of one more request in the moving average of run times.
WEIGHT = 0.05
#: Seconds between giving a slot something and looking whether it has begun.
START_CHECK_PAUSE = 0.02
#: Seconds between two looks when nothing is held and a worker is about to end.
DRAINED_PAUSE = 0.005
#: Seconds for the outcomes of many short requests to gather: they are cheaper together.
GATHER = 0.0005


class Dispatcher:
    """Gives leased requests to the slots, and what becomes of them to the pump.

    `take` and the attributes may be used from any thread, all else from one.

    Args:
        prefetch: how many requests to hold ahead for each slot, at most.

    Attributes:
        capacity: how many requests it would hold now.
        ahead: how many of them are prefetched, for each slot.
        idle: how many would start at once.
        task_seconds: how long the tasks that have ended ran, all together.
        stepped_at: when it last looked around.
    """

    def __init__(
        self,
        slots: Slots,
        pump: Pump,
        events: Events,
        *,
        prefetch: int,
    ) -> None:
        self._slots = slots
        self._pump = pump
        self._events = events
        self._wants_started = events.wants(Started)
        self._prefetch = prefetch
        self._inbox: deque[list[Lease]] = deque()
        self._backlog: deque[Lease] = deque()
        self._outcomes = Outcomes()
        self._over: list[Lease] = []
        self._recall = False
        self._accepted = 0
        self._answered = 0
        self._average = math.inf  # seconds a request runs; nothing is known yet
        self.task_seconds = 0.0
        self.stepped_at = now()
        self.capacity = 0
        self.ahead = 0
        self.idle = 0

    # -- for the receiver ------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """How many requests it holds."""
        return self._accepted - self._answered

    def take(self, leases: Sequence[Lease]) -> None:
        """Run these, in this order."""
        self._accepted += len(leases)
        self._inbox.append(list(leases))
        self._slots.wake()

    def lost(self, lease: Lease) -> None:
        """Do not start this one: its lease is lost."""
        if not lease.has_begun():
            self._recall = True
            self._slots.wake()

    def busy(self) -> int:
        """How many slots have something to run."""
        return sum(one.load > 0 for one in tuple(self._slots.children))

    def num_ready(self) -> int:
        """How many slots can run something."""
        return sum(one.ready for one in tuple(self._slots.children))

    # -- the loop --------------------------------------------------------------------------------

    def step(
        self,
        changed: Callable[[], object],
        *,
        draining: bool = False,
        longest: float = STEP,
    ) -> None:
        """Do all that can be done now, call `changed`, and wait for more.

        Args:
            draining: start nothing; abandon what has not begun.
            longest: how many seconds to wait at most.
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
            pause = DRAINED_PAUSE  # only the receiver has something left to do
        self._poll(max(0.0, min(pause, longest)))

    def _poll(self, pause: float) -> None:
        answers, deaths = self._slots.poll(pause)
        self._settle(answers)
        for death in deaths:
            self._settle_death(death)

    def give_up(self) -> None:
        """Kill what still runs and abandon all that is held."""
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
        """Look after time limits and blocked slots; seconds until that is needed again."""
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
        """Share the backlog out among the slots that have room, idle ones first."""
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
                if self._wants_started and was_idle:
                    self._emit_started(share[0])

    def _next(self, at: float) -> Lease | None:
        """The first of the backlog that may still be started."""
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
        """Tell the receiver how much is wanted."""
        fit = int(SLOT_SECONDS / max(self._average, 1e-6))
        self.ahead = min(self._prefetch, max(0, fit - 1), self._answered)
        able = [one for one in self._slots.children if one.ready and one.end_reason is None]
        quick = sum(not one.is_blocked for one in able)
        self.capacity = len(able) + self.ahead * quick
        self.idle = max(0, sum(one.load == 0 for one in able) - len(self._backlog))

    # -- what comes out --------------------------------------------------------------------------

    def _settle(self, answers: Sequence[Answer]) -> None:
        again = []
        average = self._average
        for _, lease, ending, seconds in answers:
            if isinstance(ending, NotRun):
                again.append(lease)
                continue
            if self._wants_started:
                self._emit_started(lease)
            self._over.append(lease)
            self.task_seconds += seconds
            average = seconds if average == math.inf else average + (seconds - average) * WEIGHT
            if lease.lost:
                continue
            self._outcomes.add(lease, ending, seconds)
        self._average = average
        self._backlog.extendleft(reversed(again))
        if self._wants_started:
            for slot in {answer.slot for answer in answers}:
                if slot.held and (head := slot.held[0]):
                    self._emit_started(head)

    def _emit_started(self, lease: Lease) -> None:
        if not lease.start_emitted:
            lease.start_emitted = True
            self._events.emit(Started(lease.request))

    def _settle_death(self, death: Death) -> None:
        """Of what a dead child held only the running request fails; the others go elsewhere.

        NumCrashes does not count it: that is for leases that run out, their worker being dead.
        """
        if death.running:
            lease, seconds = death.running
            self.task_seconds += seconds
            self._emit_started(lease)
            if death.how == LEASE_OVER:
                self._abandon(lease)  # the task is not to blame
            else:
                self._over.append(lease)
                if not lease.lost:
                    what = Failure(f"the {self._slots.unit} running this request {death.how}")
                    self._outcomes.not_done.append(NotDone(lease, what, seconds))
        self._backlog.extendleft(reversed(death.others))

    def _abandon(self, lease: Lease) -> None:
        self._over.append(lease)
        if not lease.lost:
            self._outcomes.abandoned.append(lease)

    def _abandon_backlog(self, keep: int = 0) -> None:
        """Abandon what no slot will run soon: the last of it, or all."""
        for lease in reversed([self._backlog.pop() for _ in range(keep, len(self._backlog))]):
            self._abandon(lease)

    def _report(self) -> None:
        if self._over:
            over, self._over = self._over, []
            outcomes, self._outcomes = self._outcomes, Outcomes()
            self._pump.deliver(outcomes, over)
            self._answered += len(over)  # last: until then somebody has to wait for them
