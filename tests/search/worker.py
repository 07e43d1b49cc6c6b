"""The real core of a worker in a simulated process, with slots whose tasks take simulated time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from rowlease.errors import StoreError
from rowlease.events import Event, Events
from rowlease.model import Failure, Held, Outcome
from rowlease.worker.attempt import NOT_COMMITTED, NOTHING, Ending, SnoozeAsked
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Lease, Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.claims.queues import QueueOrder
from rowlease.worker.claims.receiver import OutcomeSender, Receiver
from rowlease.worker.claims.suspects import Suspects
from rowlease.worker.slots.dispatcher import Dispatcher
from rowlease.worker.slots.slot import Death
from tests.search.server import Caller, Database, Link
from tests.search.world import Bell, Process
from tests.stress.fault_tasks import TOLD, told
from tests.stress.history import History, Report

SLOTS = 4
#: How tasks end that do not return.
ENDINGS: list[Ending] = [
    Failure("x"),
    Failure("x", dead=True),
    SnoozeAsked(timedelta(seconds=2), ""),
]


def pays(number: int | None) -> bool:
    """Whether a task completes its request itself, with an effect."""
    return number is not None and number % 3 == 0


class Slot:
    """A runner with some slots; a task is a thread of its own, in this process or in a child."""

    def __init__(
        self,
        database: Database,
        history: History,
        parent: Process,
        has_children: bool,
        num_slots: int = SLOTS,
    ) -> None:
        self._database, self._history, self._world = database, history, database.world
        self.tasks = Process(self._world) if has_children else parent
        self.link = Link()
        self.bell = Bell(self._world)
        self._waiting: list[Lease] = []
        self._running: dict[Lease, float] = {}
        self.ended: list[Ended[Ending]] = []
        self.deaths: list[Death] = []
        self._begun: set[int] = set()
        self.num_slots, self.num_blocked, self.num_left = num_slots, 0, math.inf
        self.take_back_at: float | None = None

    @property
    def load(self) -> int:
        return len(self._waiting) + len(self._running)

    @property
    def num_busy(self) -> int:
        return len(self._running)

    @property
    def num_idle(self) -> int:
        return self.num_slots - min(self.num_slots, self.load)

    def give(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            lease.runner, lease.number = self, lease.request.lock_token
            self._waiting.append(lease)
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self.num_slots and self.take_back_at is None:
            lease = self._waiting.pop(0)
            self._running[lease] = self._world.time
            self._begun.add(lease.number)
            self.tasks.start(self._run, lease)

    def _run(self, lease: Lease) -> None:
        world, draw, request = self._world, self._world.draw, lease.request
        self._database.begins(request, self)
        world.sleep(draw.choice([0.01, 0.1, 1.0, 10.0, 40.0, 100.0]) * draw.random())
        ending: Ending = NOTHING
        if pays(self._database.disk.numbers.get(request.request_id)):
            try:
                answer = Caller(self._database, self.link).pay(
                    Held(request.request_id, request.lock_token)
                )
            except StoreError:
                ending = Failure("unknown")
            else:
                ending = NOT_COMMITTED if answer is Outcome.OK else Failure(answer)
        elif draw.random() < 0.2:
            ending = draw.choice(ENDINGS)
        if isinstance(ending, Failure) and ending.dead:  # its answer may be lost
            lease_of = request.request_id, request.lock_token
            self._history.add(Report(*lease_of, "give up", "unknown"))
        self._database.ends(request, self)
        if lease in self._running:
            began = self._running.pop(lease)
            self.ended.append(Ended(lease, ending, world.time - began))
            self.bell.set()

    def end(self, lease: Lease, why: str) -> None:
        began = self._running.pop(lease)
        self._database.ends(lease.request, self)
        self.deaths.append(Death(why, (lease, self._world.time - began), []))
        self.bell.set()

    def running(self) -> Iterable[tuple[Lease, float]]:
        return tuple(self._running.items())

    def start_take_back(self, at: float) -> None:
        self.take_back_at = at

    def finish_take_back(self) -> list[Lease]:
        self.take_back_at = None
        back, self._waiting = self._waiting, []
        return back

    def cancels(self, lease: Lease) -> bool:
        return False

    def next_up(self) -> Iterable[Lease]:
        return ()

    # of a lease

    def has_begun(self, number: int) -> bool:
        return number in self._begun

    def stop(self, number: int) -> None: ...
    def prolong(self, number: int, ends: float) -> None: ...
    def progress(self, number: int) -> None: ...


class Slots:
    unit = "slot"
    num_deaths = 0

    def __init__(self, slot: Slot) -> None:
        self.runners = [slot]
        self._slot = slot

    def poll(self, pause: float) -> tuple[list[Ended[Ending]], list[Death]]:
        slot = self._slot
        slot._start()
        if not (slot.ended or slot.deaths):
            slot.bell.wait(pause)
        slot.bell.clear()
        ended, slot.ended = slot.ended, []
        deaths, slot.deaths = slot.deaths, []
        slot._start()
        return ended, deaths

    def wake(self) -> None:
        self._slot.bell.set()


class InOrder(dict[Any, None]):
    """A set that is iterated in the order of its insertions, so that a run can be repeated."""

    def update(self, more: Iterable[Any]) -> None:  # type: ignore[override]
        super().update(dict.fromkeys(more))

    def difference_update(self, less: Iterable[Any]) -> None:
        for one in less:
            self.pop(one, None)


def start_threads(
    process: Process,
    name: str,
    store: Any,
    slot: Any,
    events: Events,
    listener: Listener | None = None,
    poll: float = 1.0,
) -> None:
    """Start the threads of a worker with this slot in a simulated process."""
    world = process.world
    tasks: Any = {"task": SimpleNamespace(name="task", limit_seconds=None, retry_pause=None)}
    leases = Leases(store, events)
    slots: Any = Slots(slot)
    exchanger = Exchanger(store, name, QueueOrder(["default"]), tasks, leases, events)
    dispatcher = Dispatcher(slots, exchanger, events, prefetch=1, cancel_grace=5.0)
    suspects = Suspects(exchanger, leases, dispatcher, is_isolated=False, is_patient=False)
    receiver = Receiver(
        exchanger, dispatcher, leases, suspects, events,
        listener=listener, poll=poll, drained=None,
    )  # fmt: skip
    sender = OutcomeSender(exchanger, receiver)
    leases._held = InOrder()  # type: ignore[assignment]
    woken: list[Any] = [leases, receiver, sender]
    for one in woken:
        one._wake = Bell(world)

    def notice() -> None:
        receiver.notice()
        sender.notice()

    def dispatch() -> None:
        while True:
            dispatcher.step(notice)

    process.start(receiver.run)
    process.start(sender.run)
    process.start(leases.run, dispatcher.lost, dispatcher.cancel, receiver.go_on)
    process.start(dispatch)
    if listener:
        heard: Any = listener
        heard._is_idle, heard._stopped = Bell(world), Bell(world)
        process.start(listener.run, receiver)


class Worker:
    """A process with the threads of a worker."""

    def __init__(self, database: Database, history: History, name: str, children: bool) -> None:
        self.name, self.database = name, database
        world = database.world
        self.process = process = Process(world)
        self.slot = Slot(database, history, process, children)
        store = Caller(database, self.slot.link)
        events = Events()

        def note(event: Event) -> None:
            history.add(*told(event, name, database.server))

        def keep_house() -> None:
            while True:
                world.sleep(world.draw.uniform(0.5, 1.5))
                try:
                    store.maintain()
                except StoreError:
                    continue

        events.subscribe(note, *TOLD)
        start_threads(process, name, store, self.slot, events)
        process.start(keep_house)

    def kill(self) -> None:
        self.process.kill()
        self.slot.tasks.kill()
        self.database.forget(self.slot)
