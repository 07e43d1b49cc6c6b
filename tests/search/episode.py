"""One run of a few requests, with faults at random moments; the checker of histories reads it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any

import rowlease.client.sending
import rowlease.clock
import rowlease.worker.slots.dispatcher
from rowlease import EnqueueUnknown, untyped_request
from rowlease.client.enqueue_call import EnqueueCall
from rowlease.client.sending import Sending
from rowlease.errors import StoreError
from tests.contract.small_queue import LIVE, SETTINGS
from tests.search.server import Caller, Database, Disk
from tests.search.worker import Worker, pays
from tests.search.world import Process, World
from tests.stress.history import STEP, Asked, Fault, History, Ordered, check

#: What happens to an episode; each has some of them.
FAULTS = ("kill", "stop", "cut", "slow", "outage", "crash", "failover", "clock", "cancel")
#: After these, two runs of a request may be at once; see docs/reliability.md.
PARTING = ("stop", "crash", "failover", "clock")
#: Seconds until all is calm, and those that all may take then: suspects wait for 5 minutes.
STORM, CALM = 120.0, 1800.0
CALLS = 8
TIMED: list[ModuleType] = [
    rowlease.clock, rowlease.client.sending, rowlease.worker.slots.dispatcher,
]  # fmt: skip


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """The modules that read a clock or sleep do so in this world."""
    real = {module: vars(module)["time"] for module in TIMED}
    try:
        for module in TIMED:
            vars(module)["time"] = world
        yield
    finally:
        for module, time in real.items():
            vars(module)["time"] = time


class Episode:
    """A producer, two workers and a database, from a seed."""

    def __init__(self, seed: int, bug: str = "") -> None:
        self.seed = seed
        self.world = world = World(seed)
        self.draw = draw = world.draw
        # Of those that part leases from their workers, there are none in half of the episodes.
        kinds = draw.choice([FAULTS, [kind for kind in FAULTS if kind not in PARTING]])
        self.faults = draw.sample(kinds, draw.randint(0, len(kinds)))
        self.database = Database(world, bug)
        self.history = History(
            max_crashes=SETTINGS["max_crashes"], pays=lambda row: pays(row.number)
        )
        self.workers: list[Worker] = []
        self.last: Worker | None = None
        self.standby: Disk | None = None
        self.producer = Process(world)
        self.has_produced = False
        self.started = 0

    def run(self) -> list[str]:
        """What is broken."""
        random.seed(self.seed)  # pauses of workers and clients
        with simulated(self.world):
            for _ in range(2):
                self.start()
            self.producer.start(self.produce)
            if self.faults:
                self.world.after(self.draw.uniform(0, 30), self.meddle)
            self.world.run(lambda: False, STORM)
            self.database.is_calm = True
            for worker in self.workers:
                worker.slot.link.cut_until = 0.0
            self.database.ahead = self.database.slow_until = 0.0
            self.world.run(self.is_done, CALM)
            for worker in self.workers:
                worker.kill()
            self.producer.kill()
        disk = self.database.disk
        self.history.add(*disk.changes, *disk.effects)
        self.history.final = {id: r.status for id, r in disk.model.requests.items()}
        broken = [str(each) for each in check(self.history)]
        if not set(self.faults) & set(PARTING):
            broken += [f"request {id} ran twice at once" for id in self.database.side_by_side]
        return broken

    def is_done(self) -> bool:
        return self.has_produced and not self.database.disk.model.of(*LIVE)

    def start(self) -> None:
        self.started += 1
        children = self.draw.random() < 0.5
        self.workers.append(Worker(self.database, self.history, f"w{self.started}", children))

    def produce(self) -> None:
        """Make some calls, one after the other, as the client does."""
        store: Any = Caller(self.database)
        number = 0
        for _ in range(CALLS):
            self.world.sleep(self.draw.uniform(0, 20))
            numbers = tuple(range(number, number + self.draw.randint(1, 3)))
            number += len(numbers)
            requests = [untyped_request("task", {"n": n}) for n in numbers]
            sending = Sending(store, EnqueueCall(requests, {}), timedelta(seconds=5))
            try:
                answers = sending.send()
            except EnqueueUnknown:
                self.history.add(Asked(numbers, "unknown", server=self.database.server))
            except StoreError:
                self.history.add(Asked(numbers, "refused", server=self.database.server))
            else:
                ids = tuple(one.request_id or 0 for one in answers)
                server = self.database.server
                self.history.add(Asked(numbers, str(answers[0].outcome), ids, server=server))
        self.has_produced = True

    def meddle(self) -> None:
        """Do one of the faults, and come back."""
        if self.database.is_calm:
            return
        draw, database = self.draw, self.database
        worker = draw.choice(self.workers)
        if draw.random() < 0.5 and self.last in self.workers:
            worker = self.last  # one fault after another
        self.last = worker
        match draw.choice(self.faults):
            case "kill":
                worker.kill()
                self.workers.remove(worker)
                self.start()
                self.history.add(Fault("worker killed"))
            case "stop":
                ends = self.world.time + draw.uniform(0, 70)
                worker.process.goes_on_at = max(ends, worker.process.goes_on_at)
                self.history.add(Fault("worker stopped"))
            case "cut":
                worker.slot.link.cut_until = self.world.time + draw.uniform(0, 60)
                self.history.add(Fault("worker cut off"))
            case "slow":
                database.slow_until = self.world.time + draw.uniform(0, 60)
                self.history.add(Fault("network slow"))
            case "outage":
                database.down_until = self.world.time + draw.uniform(0, 60)
                self.history.add(Fault("outage"))
            case "crash":
                database.crash()
                self.history.add(Fault("database crash"))
            case "failover" if self.standby is None:
                self.standby = database.disk.copy()
            case "failover" if self.standby is not None:
                database.promote(self.standby)
                self.standby = None
                self.history.add(Fault("failover"))
            case "clock":
                database.ahead = 0.0 if database.ahead else STEP
                self.history.add(Fault("database clock stepped"))
            case "cancel":
                if waiting := database.disk.model.of(*LIVE):
                    id = draw.choice(waiting).id
                    database.act(lambda: database.disk.model.cancel([id]))
                    self.history.add(Ordered(id, "cancel"))
        self.world.after(draw.uniform(0, draw.choice([3, 30])), self.meddle)
