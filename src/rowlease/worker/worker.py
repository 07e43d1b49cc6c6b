"""The worker: assembles the components that claim requests, run tasks and deliver outcomes.

Each component that waits has its own thread::

    thread        component       what it does
    the caller's  dispatcher      gives requests to slots; ends tasks that run too long
    receiver      receiver        decides when to claim; the exchanger makes the calls
    sender        outcome sender  delivers outcomes while a claim of the receiver is unanswered
    leases        leases          renews leases and writes the progress of tasks
    heartbeats    housekeeping    sends heartbeats and fires schedules
    housekeeping  housekeeping    calls `maintain`
    listener      listener        waits for notifications (not in burst mode)

Requests pass from the exchanger to the receiver, then to the dispatcher, then to a slot. Outcomes
pass from the slot to the dispatcher, then to the exchanger.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Self, Unpack

from rowlease.clock import now
from rowlease.cores import usable_cores
from rowlease.errors import ConfigError, RowleaseError
from rowlease.event_log import logged_events
from rowlease.events import Events, IdsAdvanced, WorkerStarted, WorkerStopped, WorkerStopping
from rowlease.forks import watch_forks
from rowlease.garbage import rare_collections
from rowlease.store import Store, open_store
from rowlease.tasks.loading import Tasks, descriptions, registry_of
from rowlease.worker.calls import CallMonitor
from rowlease.worker.claims.exchanger import Exchanger
from rowlease.worker.claims.leases import Leases
from rowlease.worker.claims.listener import Listener
from rowlease.worker.claims.queues import QueueOrder, check_queues, queues_of
from rowlease.worker.claims.receiver import FLUSH, OutcomeSender, Receiver
from rowlease.worker.claims.suspects import Suspects
from rowlease.worker.components import Components, Threads
from rowlease.worker.host.health import Health
from rowlease.worker.host.signals import show_stacks, stacks_on_sigquit, stopped_by_signals
from rowlease.worker.housekeeping import Housekeeping, Schedules
from rowlease.worker.settings import WorkerKeywords, WorkerSettings
from rowlease.worker.slots.child_pool import ChildPool
from rowlease.worker.slots.dispatcher import Dispatcher
from rowlease.worker.slots.event_loop import EventLoop
from rowlease.worker.slots.executors import executor_for
from rowlease.worker.summary import Summary
from rowlease.worker.timings import POLL, POLL_WITHOUT_NOTIFICATIONS, WORKER_SHUTDOWN

__all__ = ["Summary", "Worker", "usable_cores"]


class Worker:
    """Claims requests of some queues and runs their tasks, as many at once as it has slots.

    Several workers may share queues, on one host or many. A request runs again if its worker dies,
    so a task must be safe to run twice.

    Args:
        store: the `store` of an open client, or a DSN with which `run` opens a store.
        tasks: tasks, a registry, or the name of a module (see `load_tasks`). With the executor
            "process", child processes import the tasks, so each task must be at the top level of a
            module or of the script.
        queues: as in `rowlease.worker.settings.WorkerSettings`.
        concurrency: as there.
        events: the `Events` that gets every event. None means a new one, which logs events to the
            logger `rowlease`.
        settings: the other fields of `WorkerSettings`: executor, prefetch, lease,
            consumer_priority, burst, grace, poll and processes.

    Attributes:
        health: whether the worker is live and ready. Safe to use from any thread.

    Raises:
        ConfigError, UnknownTask: an argument is wrong.
    """

    def __init__(
        self,
        store: Store | str,
        tasks: Tasks,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        concurrency: int | None = None,
        *,
        events: Events | None = None,
        **settings: Unpack[WorkerKeywords],
    ) -> None:
        self._settings = WorkerSettings(queues=queues, concurrency=concurrency, **settings)
        if not isinstance(store, str | Store):
            raise ConfigError(
                f"store is {store!r}; it must be the store of an open client, such as "
                "`client.store`, or a DSN"
            )
        self._store = store
        self._tasks = registry_of(tasks)
        self._executor = executor_for(self._tasks, self._settings)
        self._dead_letter_tasks = self._tasks.dead_letter_tasks()
        self._queue_order = QueueOrder(queues_of(self._tasks) if queues is None else queues)
        self._queues = self._queue_order.order()
        self._events = logged_events() if events is None else events
        self.health = Health(self._events, self._executor.concurrency)
        self.forget()
        watch_forks(self)
        self._stop_at: float | None = None
        self._wake: Callable[[], object] = lambda: None

    def forget(self) -> None:
        """Take another id, in a child that was forked: two workers with one id lose leases."""
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    @classmethod
    def of(
        cls,
        store: Store | str,
        tasks: Tasks,
        settings: WorkerSettings,
        events: Events | None = None,
    ) -> Self:
        """A worker with these settings."""
        return cls(
            store,
            tasks,
            settings.queues,
            settings.concurrency,
            events=events,
            **settings.keywords(),
        )

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its tasks."""
        return frozenset(self._tasks)

    def stop(self) -> None:
        """Drain: claim no more, let running tasks finish within the grace time, abandon the rest.

        A second call ends the grace time: requests that still run are abandoned at once. Safe from
        any thread and from signal handlers.
        """
        self._stop_at = now() + (
            self._settings.grace.total_seconds() if self._stop_at is None else 0.0
        )
        self._wake()

    def run(self) -> Summary:
        """Work until stopped, or in burst mode until nothing is left to do. Call this only once.

        In the main thread SIGTERM and Ctrl-C call `stop`, and SIGQUIT writes all stacks to stderr.

        Raises:
            InvalidRequest: a queue does not exist.
            StoreError: the database cannot be reached at the start, or keeps refusing calls.
            ConfigError: a child process cannot import the tasks.
        """
        if not isinstance(self._store, str):
            return self._run(self._store)
        with closing(open_store(self._store, application_name="rowlease worker")) as store:
            return self._run(store)

    def _run(self, store: Store) -> Summary:
        store.check_schema()
        for advanced in store.advance_ids():
            self._events.emit(IdsAdvanced(*advanced))
        are_named = self._settings.queues is not None
        check_queues(store, self._tasks, self._queues, self._events, are_named=are_named)
        store.set_dead_letter_tasks(self._queues, self._dead_letter_tasks)
        with (
            rare_collections(),
            stopped_by_signals(self.stop),
            closing(self._executor.slots(self._tasks, self._events, store.dsn)) as slots,
            stacks_on_sigquit(lambda: show_stacks(slots.runners)),
        ):
            self._wake = slots.wake
            slots.start(cancelled=lambda: self._stop_at is not None)
            components = self._components(store, slots)
            threads = Threads(failed=self._stop_unless_stopping)
            began_at = now()
            try:
                self._start(components, threads)
                self._work(components)
                self._drain(components)
            finally:
                self._end(components, threads)
        self._events.emit(WorkerStopped(self.worker_id, components.undelivered))
        if threads.error:
            raise threads.error
        return self._summary(components, slots.num_deaths, now() - began_at)

    def _components(self, store: Store, slots: ChildPool | EventLoop) -> Components:
        settings, events = self._settings, self._events
        is_burst, lease = settings.burst, settings.lease
        calls = CallMonitor(events)
        store = store.monitored(calls.during)
        leases = Leases(store, events)
        exchanger = Exchanger(
            store, self.worker_id, self._queue_order, self._tasks, leases, events, lease=lease
        )
        dispatcher = Dispatcher(
            slots,
            exchanger,
            events,
            prefetch=self._executor.prefetch,
            cancel_grace=settings.cancel_grace.total_seconds(),
        )
        is_isolated = self._executor.set_up is not None
        suspects = Suspects(
            exchanger, leases, dispatcher, is_isolated=is_isolated, is_patient=is_burst
        )
        schedules = None if is_burst else Schedules(store, self.worker_id, self._tasks, events)
        housekeeping = Housekeeping(
            store,
            self.worker_id,
            self._queues,
            events,
            slots=self._executor.concurrency,
            busy=partial(self._busy, dispatcher, suspects),
            consumer_priority=settings.consumer_priority,
            kinds=descriptions(self._tasks),
            schedules=schedules,
        )
        listens = store.can_notify and not is_burst
        listener = Listener(store, self._queues, events, leases.check) if listens else None
        longest_sleep = POLL if store.can_notify else POLL_WITHOUT_NOTIFICATIONS
        receiver = Receiver(
            exchanger,
            dispatcher,
            leases,
            suspects,
            events,
            listener=listener,
            poll=settings.poll.total_seconds() if settings.poll else longest_sleep,
            # Outcomes must be sent well before a lease ends. Without `lease`, the queue's setting
            # applies: its leases last at least 1 s, so FLUSH is short enough.
            flush=min(FLUSH, lease.total_seconds() / 10) if lease else FLUSH,
            drained=partial(self._stop_if_drained, store, housekeeping) if is_burst else None,
        )
        return Components(
            calls=calls,
            leases=leases,
            exchanger=exchanger,
            dispatcher=dispatcher,
            listener=listener,
            receiver=receiver,
            outcome_sender=OutcomeSender(exchanger, receiver),
            housekeeping=housekeeping,
        )

    def _start(self, components: Components, threads: Threads) -> None:
        counts = components.exchanger.counts
        self.health.watch(
            components.dispatcher,
            components.calls,
            components.housekeeping,
            lambda: counts.finished,
        )
        slots = self._executor.concurrency
        self._events.emit(WorkerStarted(self.worker_id, tuple(self._queues), slots))
        components.start(threads)

    def _work(self, components: Components) -> None:
        """Run tasks until stopped."""
        while self._stop_at is None:
            components.dispatcher.step(components.notice)

    def _drain(self, components: Components) -> None:
        """Claim no more, and let running tasks finish within the grace time."""
        self._events.emit(WorkerStopping(self.worker_id, self._settings.grace))
        receiver, dispatcher = components.receiver, components.dispatcher
        receiver.drain()
        while not (receiver.is_quiet and dispatcher.held == 0) and self._time_left > 0:
            dispatcher.step(components.notice, draining=True, longest=self._time_left)
        dispatcher.give_up()

    def _end(self, components: Components, threads: Threads) -> None:
        """Deliver the remaining outcomes and stop the threads, within time limits."""
        until = max(now() + WORKER_SHUTDOWN, self._stop_at or 0.0)
        components.outcome_sender.close()
        components.receiver.close(until)
        if threads.has_ended("receiver", until - now() + 1.0):
            components.deliver_rest()
        components.stop()
        threads.wait(
            ("sender", "leases", "heartbeats", "housekeeping", "listener"), WORKER_SHUTDOWN
        )

    def _summary(self, components: Components, num_deaths: int, seconds: float) -> Summary:
        counts = components.exchanger.counts
        return Summary(
            claimed=counts.claimed,
            finished=counts.finished,
            failed=counts.failed,
            cancelled=counts.cancelled,
            dead=counts.dead,
            abandoned=counts.abandoned,
            declined=counts.declined,
            snoozed=counts.snoozed,
            lost=counts.lost + components.leases.num_lost,
            crashed=num_deaths,
            undelivered=components.undelivered,
            seconds=seconds,
            slots=self._executor.concurrency,
            task_seconds=components.dispatcher.task_seconds,
        )

    @property
    def _time_left(self) -> float:
        """Seconds until running tasks are abandoned."""
        return math.inf if self._stop_at is None else self._stop_at - now()

    def _busy(self, dispatcher: Dispatcher, suspects: Suspects) -> int:
        """The number of slots that can take no request now."""
        return self._executor.concurrency if suspects.holds_claims else dispatcher.busy()

    def _stop_if_drained(self, store: Store, housekeeping: Housekeeping, claimed_at: float) -> bool:
        """Stop a worker in burst mode, unless requests may have become due since an empty claim.

        An unfinished `maintain` may have hidden them from the claim, and the end of a batch may
        have made them due.
        """
        if not housekeeping.has_rested_since(claimed_at):
            return False
        with suppress(RowleaseError):
            if store.finish_batches():
                return False
        self._stop_unless_stopping()
        return True

    def _stop_unless_stopping(self) -> None:
        if self._stop_at is None:
            self.stop()
