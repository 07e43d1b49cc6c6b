"""The worker: leases requests, runs their tasks in child processes, reports what became of them.

A thread for each thing that waits::

    the caller's  dispatcher    shares requests out among the slots; time limits, deaths, signals
    receiver      receiver      decides when to exchange; its pump calls the database
    leases        leases        renews what is held
    housekeeping  housekeeping  heartbeats and `maintain`
    bell          bell          waits for the doorbell (not in burst mode)

Requests go receiver -> pump -> dispatcher -> slots (child processes, or coroutines), outcomes back
the same way.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from threading import Thread, current_thread, main_thread

from rowlease.errors import ConfigError, RowleaseError, UnknownTask
from rowlease.events import Events, WorkerStarted, WorkerStopped, WorkerStopping, log_to
from rowlease.store import Store, open_store
from rowlease.tasks import Registry, Task, load_tasks
from rowlease.worker.bell import Bell
from rowlease.worker.child import now
from rowlease.worker.cores import usable_cores
from rowlease.worker.coroutines import Coroutines
from rowlease.worker.dispatcher import Dispatcher
from rowlease.worker.housekeeping import Housekeeping
from rowlease.worker.imports import set_up
from rowlease.worker.leases import Leases
from rowlease.worker.processes import ChildProcesses
from rowlease.worker.pump import Pump
from rowlease.worker.receiver import POLL, POLL_WITHOUT_BELL, Receiver
from rowlease.worker.schedules import Schedules
from rowlease.worker.summary import Summary

__all__ = ["Summary", "Worker", "usable_cores"]

logger = logging.getLogger("rowlease")

#: Per executor, how many slots (None: the cores), and how many requests each holds ahead at most.
DEFAULTS: dict[str, tuple[int | None, int]] = {"process": (None, 100), "coroutine": (100, 10)}
#: Seconds that the last outcomes have to reach the database, whatever is left of the grace time.
FAREWELL = 5.0


class Worker:
    """Leases requests of some queues and runs their tasks, as many at once as it has slots.

    Several workers may share queues, on one host or many; each has leases of its own. A request
    runs again if its worker dies, so tasks must bear being run twice.

    Args:
        store: a store, or the DSN of one, which is then opened and closed by `run`.
        tasks: what `load_tasks` takes or gives, or tasks. For the executor "process" they must be
            importable by child processes: at the top level of a module, or of the script.
        queues: where to take requests from, most important first.
        concurrency: slots; None takes the cores this process may use, or 100 for coroutines.
        executor: "process" runs each slot's tasks in a child process; what crashes one harms no
            other. "coroutine" runs all in one event loop in this process: for tasks that wait for
            other machines. None takes "coroutine" if every task is an `async def`.
        prefetch: how many short requests to hold ahead for each slot, at most (100; 10 for
            coroutines). How many they are follows from how long tasks take: about 50 ms of work,
            none while tasks are long.
        lease: how long leases last before they must be renewed (0.1 s to 1 day); None takes the
            queue's. A dead worker's requests are free again after that time.
        consumer_priority: where it is lower than another worker's, that one gets requests first.
        burst: stop when the queues are empty and nothing runs; requests scheduled for later do
            not count.
        grace: how long running tasks may go on after the first `stop`.
        events: what happens is told there; None makes one that writes to the logger `rowlease`.
        poll: how long an idle worker sleeps at most, where nothing rings.

    Raises:
        ConfigError, UnknownTask: an argument is wrong.
    """

    def __init__(
        self,
        store: Store | str,
        tasks: str | Task | Iterable[Task] | Registry,
        queues: Sequence[str] = ("default",),
        concurrency: int | None = None,
        *,
        executor: str | None = None,
        prefetch: int | None = None,
        lease: timedelta | None = None,
        consumer_priority: int = 0,
        burst: bool = False,
        grace: timedelta = timedelta(seconds=30),
        events: Events | None = None,
        poll: timedelta | None = None,
    ) -> None:
        if isinstance(queues, str) or not queues or len(set(queues)) < len(queues):
            raise ConfigError(f"queues is {queues!r}; it must be a list of different names")
        if concurrency is not None and concurrency < 1:
            raise ConfigError(f"concurrency is {concurrency}; it must be 1 or more")
        if lease is not None and not timedelta(milliseconds=100) <= lease <= timedelta(days=1):
            raise ConfigError(f"lease is {lease}; it must be 100 ms to 1 day")
        if prefetch is not None and prefetch < 0:
            raise ConfigError(f"prefetch is {prefetch}; it must be 0 or more")
        self._store = store
        self._tasks = _registry(tasks)
        if executor is None:
            alike = all(each.is_coroutine for each in self._tasks.values())
            executor = "coroutine" if alike else "process"
        if executor not in DEFAULTS:
            raise ConfigError(f"executor is {executor!r}; it must be one of {', '.join(DEFAULTS)}")
        self._set_up = set_up(self._tasks) if executor == "process" else None
        self._queues = list(queues)
        slots, ahead = DEFAULTS[executor]
        self._concurrency = concurrency or slots or usable_cores()
        self._prefetch = ahead if prefetch is None else prefetch
        self._lease = lease
        self._consumer_priority = consumer_priority
        self._burst = burst
        self._grace = grace
        self._poll = poll and poll.total_seconds()
        self._events = events or Events()
        if events is None:
            log_to(self._events)
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stop_at: float | None = None
        self._wake: Callable[[], object] = lambda: None
        self._error: BaseException | None = None

    def stop(self) -> None:
        """Drain: claim no more, let running tasks finish within the grace time, hand back the rest.

        Called again: hand back at once what still runs. Safe from any thread and signal handler.
        """
        self._stop_at = now() + (self._grace.total_seconds() if self._stop_at is None else 0.0)
        self._wake()

    def run(self) -> Summary:
        """Work until stopped, or in burst mode until nothing is left to do. Call it once.

        In the main thread SIGTERM and Ctrl-C call `stop`.

        Raises:
            StoreError: the database cannot be reached at the start, or refuses for good.
            ConfigError: a child process cannot import the tasks.
        """
        if not isinstance(self._store, str):
            return self._run(self._store)
        with closing(open_store(self._store, application_name="rowlease worker")) as store:
            return self._run(store)

    def _run(self, store: Store) -> Summary:
        store.check_schema()
        events = self._events
        with self._signals(), closing(self._slots()) as slots:
            self._wake = slots.wake
            slots.start(cancelled=lambda: self._stop_at is not None)
            leases = Leases(store, events)
            pump = Pump(
                store, self.worker_id, self._queues, self._tasks, leases, events, lease=self._lease
            )
            dispatcher = Dispatcher(slots, pump, leases, events, prefetch=self._prefetch)
            bell = Bell(store, self._queues, events) if store.can_notify else None
            receiver = Receiver(
                pump,
                dispatcher,
                events,
                bell=None if self._burst else bell,
                poll=self._poll or (POLL if bell else POLL_WITHOUT_BELL),
                drained=self._drained if self._burst else None,
            )
            housekeeping = Housekeeping(
                store,
                self.worker_id,
                self._queues,
                slots=self._concurrency,
                busy=dispatcher.busy,
                consumer_priority=self._consumer_priority,
                schedules=None
                if self._burst
                else Schedules(store, self.worker_id, self._tasks, events),
            )
            claiming = self._thread("receiver", receiver.run)
            others = [
                self._thread("leases", leases.run, dispatcher.lost),
                self._thread("housekeeping", housekeeping.run),
                *([self._thread("bell", bell.run, receiver)] if bell and not self._burst else []),
            ]
            began_at = now()
            try:
                events.emit(WorkerStarted(self.worker_id, tuple(self._queues), self._concurrency))
                for thread in (claiming, *others):
                    thread.start()
                self._dispatch(dispatcher, receiver)
            finally:
                until = max(now() + FAREWELL, self._stop_at or 0.0)
                receiver.close(until)
                claiming.join(until - now() + 1.0)
                if not claiming.is_alive():
                    self._deliver_rest(dispatcher, pump)
                leases.stop()
                housekeeping.stop()
                if bell:
                    bell.stop()
                for thread in others:
                    thread.join(FAREWELL)
        undelivered = pump.undelivered + dispatcher.held
        events.emit(WorkerStopped(self.worker_id, undelivered))
        if self._error:
            raise self._error
        counts = pump.counts
        return Summary(
            counts.claimed,
            counts.finished,
            counts.failed,
            counts.abandoned,
            counts.lost + leases.num_lost,
            slots.num_deaths,
            undelivered,
            now() - began_at,
            self._concurrency,
            dispatcher.task_seconds,
        )

    def _slots(self) -> ChildProcesses | Coroutines:
        if self._set_up is None:
            return Coroutines(self._tasks, self._concurrency)
        return ChildProcesses(self._set_up, self._concurrency, self._events)

    def _dispatch(self, dispatcher: Dispatcher, receiver: Receiver) -> None:
        """Work, then drain."""
        while self._stop_at is None:
            dispatcher.step(receiver.notice)
        self._events.emit(WorkerStopping(self.worker_id, self._grace))
        receiver.drain()
        while not (receiver.is_quiet and dispatcher.held == 0) and now() < self._stop_at:
            dispatcher.step(receiver.notice, draining=True, longest=self._stop_at - now())
        dispatcher.give_up()

    def _deliver_rest(self, dispatcher: Dispatcher, pump: Pump) -> None:
        """What a claim brought too late, or what the receiver left when it failed."""
        dispatcher.give_up()
        if pump.undelivered:
            with suppress(RowleaseError):
                pump.exchange(0, 0)

    def _drained(self) -> None:
        if self._stop_at is None:
            self.stop()

    def _thread(self, name: str, run: Callable[..., object], *arguments: object) -> Thread:
        def guarded() -> None:
            try:
                run(*arguments)
            except BaseException as error:
                logger.debug("the thread %s failed", name, exc_info=True)
                self._error = self._error or error
                self._drained()

        return Thread(target=guarded, name=f"rowlease-{name}", daemon=True)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop the worker, where that can be had: in the main thread."""
        if current_thread() is not main_thread():
            yield
            return
        before = {
            number: signal.signal(number, lambda *_: self.stop())
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _registry(tasks: str | Task | Iterable[Task] | Registry) -> Registry:
    if isinstance(tasks, str):
        return load_tasks(tasks)
    if isinstance(tasks, Registry):
        return tasks
    found = Registry([tasks] if isinstance(tasks, Task) else tasks)
    if not found:
        raise UnknownTask("a worker needs at least one task")
    return found
