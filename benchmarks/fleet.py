"""What would hundreds of worker hosts cost? A simulation.

    python -m benchmarks.fleet [--hosts 10,50,100,300,1000] [--cores 32] [--requests 3000]

The real core of each worker (receiver, exchanger, dispatcher, listener) runs in simulated time,
with four slots and tasks of a second. Requests come at random, so that 70 % of all slots are busy.
The hosts of the workers are never busy. Each call takes a core of the server for as long as `Cost`
says. Afterwards the same without notifications, as behind a pooler: workers poll once a second.
`benchmarks.hosts` measures what one machine can run.
"""

from __future__ import annotations

import argparse
import operator
import random
import sys
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.latency import Latencies
from benchmarks.tables import Table, finish
from rowlease.events import Events
from rowlease.model import Claim, Exchanged, LeasedRequest, Outcome
from rowlease.worker.attempt import NOTHING
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.timings import POLL, POLL_WITHOUT_NOTIFICATIONS
from tests.search.episode import simulated
from tests.search.worker import Slot, start_threads
from tests.search.world import Bell, Process, World

SLOTS = 4
BUSY = 0.7
TASK_SECONDS = 1.0
#: Seconds from one host to another.
NETWORK = 0.0001
#: Simulated seconds before those that count.
WARM_UP = 3.0
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Cost:
    """Seconds of a core of the server, with PostgreSQL 18.

    Those of an enqueue, a claim and an outcome are of `benchmarks.request_life`, in batches of one.
    A claim that finds nothing took 0.12 ms in `benchmarks.server_cost`, and 0.23 ms in a loop on a
    busy machine; this is between them. So is the notification: it took 11 and 34 microseconds for
    each of 50 and 150 sessions that listened.
    """

    ENQUEUE = 0.00023
    CLAIM = 0.00026
    EMPTY_CLAIM = 0.00016
    OUTCOME = 0.00015
    #: Of a NOTIFY for each session that listens, whether its worker is idle or not.
    NOTIFICATION = 0.00002


class Server:
    """A queue in memory, and cores that serve calls in their order."""

    def __init__(self, world: World, cores: int) -> None:
        self.world = world
        self._free_at = [0.0] * cores
        self._due: deque[int] = deque()
        self._listeners: list[Notifications] = []
        #: When the producer called, of each request.
        self.asked_at: dict[int, float] = {}
        self.num_claims = self.num_notified = 0
        self.spent = 0.0

    def work(self, seconds: float) -> float:
        """Take a core for this long; when it is done."""
        core = min(range(len(self._free_at)), key=self._free_at.__getitem__)
        begin = max(self.world.time, self._free_at[core])
        self._free_at[core] = begin + seconds
        self.spent += seconds
        return begin + seconds

    def serve(self, seconds: float) -> None:
        """Have the caller wait for its turn and its work."""
        self.world.sleep(NETWORK)
        self.world.sleep(self.work(seconds) - self.world.time)

    def enqueue(self, asked_at: float) -> None:
        self.serve(Cost.ENQUEUE)
        id = len(self.asked_at)
        self.asked_at[id] = asked_at
        self._due.append(id)
        if any(one.is_idle for one in self._listeners):
            for one in self._listeners:
                one.notify()

    def listen(self, queues: Sequence[str]) -> Notifications:
        self._listeners.append(Notifications(self))
        return self._listeners[-1]

    def figures(self) -> tuple[float, ...]:
        """How many requests, claims and notified sessions there were, and the time of all cores."""
        return len(self.asked_at), self.num_claims, self.num_notified, self.spent

    def has_due(self) -> bool:
        return bool(self._due)

    def take(self, limit: int) -> list[LeasedRequest]:
        """Claim at once."""
        now = EPOCH + timedelta(seconds=self.world.time)
        ends = now + timedelta(seconds=30)
        ids = [self._due.popleft() for _ in range(min(limit, len(self._due)))]
        return [
            LeasedRequest(
                id, "default", "task", 0, now, now, now, ends, id, 1, 3, 0, None, None, "{}"
            )
            for id in ids
        ]


class Notifications:
    """A session that listens. It reads all notifications that have come at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._bell = Bell(server.world)
        self._is_signalled = False
        self.is_idle = False
        self.cancelled: list[int] = []

    def notify(self) -> None:
        if not self._is_signalled:
            self._is_signalled = True
            self._server.num_notified += 1
            at = self._server.work(Cost.NOTIFICATION) + NETWORK
            self._server.world.after(at - self._server.world.time, self._arrive)

    def _arrive(self) -> None:
        self._is_signalled = False
        self._bell.set()

    def announce_idle(self, idle: bool) -> None:
        self._server.world.sleep(2 * NETWORK)
        self.is_idle = idle

    def wait(self, timeout: timedelta) -> bool:
        has_heard = self._bell.wait(timeout.total_seconds()) if timeout else False
        self._bell.clear()
        return has_heard

    def close(self) -> None: ...


class Store:
    """The store of one worker."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.listen = server.listen

    def within(self, timeout: timedelta) -> Store:
        return self

    def dequeue(self, worker: str, queues: Sequence[str], limit: int, **more: Any) -> Claim:
        server = self._server
        server.num_claims += 1
        server.serve(Cost.EMPTY_CLAIM)
        if claimed := server.take(limit):
            server.serve(Cost.CLAIM - Cost.EMPTY_CLAIM)
        server.world.sleep(NETWORK)
        return Claim(claimed, server.has_due(), None, "")

    def exchange(self, worker: str, queues: Sequence[str], limit: int, **more: Any) -> Exchanged:
        self._server.serve(Cost.OUTCOME * len(more["completed"]))
        claim = self.dequeue(worker, queues, limit) if limit else Claim([], False, None, "")
        return Exchanged([Outcome.OK] * len(more["completed"]), [], [], claim)

    def finish_batches(self, batches: object) -> int:
        return 0


class Naps(Slot):
    """Slots whose tasks take a second."""

    def __init__(self, server: Server, parent: Process) -> None:
        shared: Any = server  # of a database, only the world is used
        none: Any = None
        super().__init__(shared, none, parent, has_children=False, num_slots=SLOTS)
        self._server = server
        self.late: list[tuple[float, float]] = []

    def _run(self, lease: Lease) -> None:
        asked_at = self._server.asked_at[lease.request.request_id]
        self.late.append((asked_at, 1000 * (self._world.time - asked_at)))
        self._world.sleep(TASK_SECONDS)
        began = self._running.pop(lease)
        self.ended.append(Ended(lease, NOTHING, self._world.time - began))
        self.bell.set()


def simulate(hosts: int, cores: int, requests: int, *, notifies: bool) -> list[str]:
    """The row of the table for this number of hosts."""
    world = World(1)
    random.seed(1)
    with simulated(world):
        server = Server(world, cores)
        slots = []
        for number in range(hosts):
            process = Process(world)
            slots.append(Naps(server, process))
            store: Any = Store(server)
            events = Events()
            listener = Listener(store, ["default"], events, lambda ids: None) if notifies else None
            poll = POLL if notifies else POLL_WITHOUT_NOTIFICATIONS
            start_threads(process, f"w{number}", store, slots[-1], events, listener, poll)
        producer = Process(world)
        rate = BUSY * SLOTS * hosts / TASK_SECONDS
        seconds = requests / rate

        def produce() -> None:
            while True:
                world.sleep(world.draw.expovariate(rate))
                producer.start(server.enqueue, world.time)

        producer.start(produce)
        world.run(lambda: False, WARM_UP)
        before = server.figures()
        world.run(lambda: False, seconds)
        enqueued, claims, notified, spent = map(operator.sub, server.figures(), before)
        ends = world.time
        world.run(lambda: False, TASK_SECONDS)
    found = [each for one in slots for each in one.late]
    late = Latencies.of(sorted(ms for at, ms in found if ends - seconds <= at < ends))
    return [
        f"{hosts:,}", "yes" if notifies else "no", f"{rate:,.0f}",
        f"{late.p50:.1f} ms", f"{late.p99:.1f} ms",
        f"{claims / enqueued:.1f}", f"{notified / enqueued:.1f}",
        f"{1000 * spent / enqueued:.2f} ms", f"{spent / seconds:.1f}",
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", default="10,50,100,300,1000")
    parser.add_argument("--cores", type=int, default=32, help="of the server")
    parser.add_argument("--requests", type=int, default=3000, help="that count")
    given = parser.parse_args()
    rows = []
    for notifies in (True, False):
        for hosts in given.hosts.split(","):
            rows.append(simulate(int(hosts), given.cores, given.requests, notifies=notifies))
            print(rows[-1], file=sys.stderr)
    title = f"Simulated hosts with {SLOTS} slots each, 70 % busy, a server of {given.cores} cores"
    columns = ["hosts", "notifications", "requests a second", "start latency, p50", "p99",
               "claims a request", "sessions notified a request", "server's time a request",
               "cores busy"]  # fmt: skip
    costs = [f"{name.lower().replace('_', ' ')} {1000 * value:g} ms"
             for name, value in vars(Cost).items() if name.isupper()]  # fmt: skip
    return finish(Table(title, f"Assumed for each: {', '.join(costs)}", columns, rows))


if __name__ == "__main__":
    sys.exit(main())
