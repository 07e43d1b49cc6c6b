"""The worker: leases requests, runs their tasks in child processes, reports what became of them.

A thread for each thing that waits::

    the caller's  dispatcher    shares requests out among the slots; time limits, deaths, signals
    receiver      receiver      decides when to exchange; its pump calls the database
    sender        sender        delivers outcomes while the receiver waits for a claim
    leases        leases        renews what is held
    housekeeping  housekeeping  heartbeats, schedules and `maintain`
    listener      listener      waits for notifications (not in burst mode)

Requests go receiver -> pump -> dispatcher -> slots (child processes, or coroutines), outcomes back
the same way.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from threading import Thread
from typing import Self, Unpack

from rowlease.clock import now
from rowlease.errors import RowleaseError
from rowlease.events import Events, WorkerStarted, WorkerStopped, WorkerStopping, log_to
from rowlease.store import Store, open_store
from rowlease.task_loading import registry_of
from rowlease.tasks import Registry, Task
from rowlease.worker.call_monitor import CallMonitor
from rowlease.worker.claims.leases import Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.next_claim import POLL, POLL_WITHOUT_NOTIFICATIONS
from rowlease.worker.claims.pump import Pump
from rowlease.worker.claims.queue_order import QueueOrder
from rowlease.worker.claims.queues import check_queues, queues_of
from rowlease.worker.claims.receiver import FLUSH, Receiver
from rowlease.worker.claims.sender import Sender
from rowlease.worker.cores import usable_cores
from rowlease.worker.host.health import Health
from rowlease.worker.host.signals import show_stacks, stacks_on_sigquit, stopped_by_signals
from rowlease.worker.housekeeping import Housekeeping
from rowlease.worker.schedules import Schedules
from rowlease.worker.settings import WorkerKeywords, WorkerSettings
from rowlease.worker.slots.dispatcher import Dispatcher
from rowlease.worker.slots.executors import executor_for
from rowlease.worker.summary import Summary
from rowlease.worker.times import WORKER_FAREWELL

__all__ = ["Summary", "Worker", "usable_cores"]

logger = logging.getLogger("rowlease")


class Worker:
    """Leases requests of some queues and runs their tasks, as many at once as it has slots.

    Several workers may share queues, on one host or many; each has leases of its own. A request
    runs again if its worker dies, so tasks must bear being run twice.

    Args:
        store: a store, or the DSN of one, which is then opened and closed by `run`.
        tasks: what `load_tasks` takes or gives, or tasks. For the executor "process" they must be
            importable by child processes: at the top level of a module, or of the script.
        events: gets every event; None makes one that writes to the logger `rowlease`.
        queues, concurrency, executor, prefetch, lease, consumer_priority, burst, grace, poll,
            processes: as in `rowlease.worker.settings.WorkerSettings`.

    Attributes:
        health: whether it is alive, and ready for work. For any thread.

    Raises:
        ConfigError, UnknownTask: an argument is wrong.
    """

    def __init__(
        self,
        store: Store | str,
        tasks: str | Task | Iterable[Task] | Registry,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        concurrency: int | None = None,
        *,
        events: Events | None = None,
        **settings: Unpack[WorkerKeywords],
    ) -> None:
        self._settings = WorkerSettings(queues=queues, concurrency=concurrency, **settings)
        self._store = store
        self._tasks = registry_of(tasks)
        self._executor = executor_for(self._tasks, self._settings)
        self._queue_order = QueueOrder(queues_of(self._tasks) if queues is None else queues)
        self._queues = self._queue_order.order()
        self._events = events or Events()
        if events is None:
            log_to(self._events)
        self.health = Health(self._events, self._executor.concurrency)
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stop_at: float | None = None
        self._wake: Callable[[], object] = lambda: None
        self._error: BaseException | None = None

    @classmethod
    def of(
        cls,
        store: Store | str,
        tasks: str | Task | Iterable[Task] | Registry,
        settings: WorkerSettings,
    ) -> Self:
        """A worker with these settings."""
        return cls(store, tasks, settings.queues, settings.concurrency, **settings.keywords())

    def stop(self) -> None:
        """Drain: claim no more, let running tasks finish within the grace time, hand back the rest.

        Called again: hand back at once what still runs. Safe from any thread and signal handler.
        """
        self._stop_at = now() + (
            self._settings.grace.total_seconds() if self._stop_at is None else 0.0
        )
        self._wake()

    def run(self) -> Summary:
        """Work until stopped, or in burst mode until nothing is left to do. Call it once.

        In the main thread SIGTERM and Ctrl-C call `stop`, and SIGQUIT writes all stacks to stderr.

        Raises:
            InvalidRequest: a queue does not exist.
            StoreError: the database cannot be reached at the start, or refuses for good.
            ConfigError: a child process cannot import the tasks.
        """
        if not isinstance(self._store, str):
            return self._run(self._store)
        with closing(open_store(self._store, application_name="rowlease worker")) as store:
            return self._run(store)

    def _run(self, store: Store) -> Summary:
        store.check_schema()
        events, settings = self._events, self._settings
        check_queues(
            store, self._tasks, self._queues, events, are_named=settings.queues is not None
        )
        with (
            stopped_by_signals(self.stop),
            closing(self._executor.slots(self._tasks, events)) as slots,
            stacks_on_sigquit(lambda: show_stacks(slots.children)),
        ):
            self._wake = slots.wake
            slots.start(cancelled=lambda: self._stop_at is not None)
            calls = CallMonitor(events)
            store = calls.through(store)
            leases = Leases(store, events)
            pump = Pump(
                store,
                self.worker_id,
                self._queue_order,
                self._tasks,
                leases,
                events,
                lease=settings.lease,
            )
            dispatcher = Dispatcher(slots, pump, events, prefetch=self._executor.prefetch)
            listener = Listener(store, self._queues, events) if store.can_notify else None
            longest_sleep = POLL if listener else POLL_WITHOUT_NOTIFICATIONS
            listening = None if settings.burst else listener
            receiver = Receiver(
                pump,
                dispatcher,
                leases,
                events,
                listener=listening,
                poll=settings.poll.total_seconds() if settings.poll else longest_sleep,
                # In time, whatever the lease: those of queues are a second or more.
                flush=min(FLUSH, settings.lease.total_seconds() / 10) if settings.lease else FLUSH,
                drained=self._drained if settings.burst else None,
            )
            housekeeping = Housekeeping(
                store,
                self.worker_id,
                self._queues,
                events,
                slots=self._executor.concurrency,
                busy=dispatcher.busy,
                consumer_priority=settings.consumer_priority,
                kinds=list(self._tasks),
                schedules=None
                if settings.burst
                else Schedules(store, self.worker_id, self._tasks, events),
            )
            sender = Sender(pump, receiver)
            claiming = self._thread("receiver", receiver.run)
            others = [
                self._thread("sender", sender.run),
                self._thread("leases", leases.run, dispatcher.lost, receiver.go_on),
                self._thread("housekeeping", housekeeping.run),
                *([self._thread("listener", listening.run, receiver)] if listening else []),
            ]
            began_at = now()
            self.health.watch(dispatcher, calls, housekeeping, lambda: pump.counts.finished)
            try:
                events.emit(
                    WorkerStarted(self.worker_id, tuple(self._queues), self._executor.concurrency)
                )
                for thread in (claiming, *others):
                    thread.start()
                self._dispatch(dispatcher, receiver, sender, calls)
            finally:
                until = max(now() + WORKER_FAREWELL, self._stop_at or 0.0)
                sender.close()
                receiver.close(until)
                claiming.join(until - now() + 1.0)
                if not claiming.is_alive():
                    self._deliver_rest(dispatcher, pump)
                leases.stop()
                housekeeping.stop()
                if listening:
                    listening.stop()
                for thread in others:
                    thread.join(WORKER_FAREWELL)
        undelivered = pump.undelivered + dispatcher.held
        events.emit(WorkerStopped(self.worker_id, undelivered))
        if self._error:
            raise self._error
        counts = pump.counts
        return Summary(
            counts.claimed,
            counts.finished,
            counts.failed,
            counts.dead,
            counts.abandoned,
            counts.lost + leases.num_lost,
            slots.num_deaths,
            undelivered,
            now() - began_at,
            self._executor.concurrency,
            dispatcher.task_seconds,
        )

    def _dispatch(
        self, dispatcher: Dispatcher, receiver: Receiver, sender: Sender, calls: CallMonitor
    ) -> None:
        """Work, then drain."""

        def changed() -> None:
            receiver.notice()
            sender.notice()
            calls.look()

        while self._stop_at is None:
            dispatcher.step(changed)
        self._events.emit(WorkerStopping(self.worker_id, self._settings.grace))
        receiver.drain()
        while not (receiver.is_quiet and dispatcher.held == 0) and now() < self._stop_at:
            dispatcher.step(changed, draining=True, longest=self._stop_at - now())
        dispatcher.give_up()

    def _deliver_rest(self, dispatcher: Dispatcher, pump: Pump) -> None:
        """What a claim brought too late, or what the receiver left when it failed."""
        dispatcher.give_up()
        with suppress(RowleaseError):
            if pump.lost_claims.is_unsure:
                pump.disown()
            if pump.undelivered:
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
