"""Runs tasks in the worker's process: coroutines in an event loop, plain functions in threads.

The event loop has its own thread. All slots take their requests from one deque, so a batch passes
from the dispatcher to the slots, and from the slots to the dispatcher, by one hand-over. The tasks
can only be cancelled, not killed. A coroutine that blocks the loop delays all slots.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from rowlease import middleware
from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.errors import ConfigError, SoftTimeLimitExceeded
from rowlease.events import Events
from rowlease.lifespans import Shared
from rowlease.tasks.task import Registry, Task
from rowlease.worker.attempt import Ending, NotRun, failed, returned
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.slots.block_watch import BlockWatch
from rowlease.worker.slots.shared_memory import MAX_NOTE
from rowlease.worker.slots.slot import Death
from rowlease.worker.slots.task_threads import TaskThreads
from rowlease.worker.timings import SLOTS_SHUTDOWN

#: Seconds after which a slot whose tasks never wait lets other slots and timers run.
TURN = 0.001


#: A request that a slot is running, when it began, and the asyncio task of the slot.
Serving = tuple[Lease, float, asyncio.Task[None]]


class EventLoop:
    """The slots of a worker that runs its tasks in its own process; see `slot.Runner`.

    The dispatcher's thread calls the methods, except those for the context of a task, and `wake`.

    Args:
        count: the number of slots.
        unit: the word for one slot in messages.
        shared: what the tasks share.
    """

    num_deaths = 0
    num_left = math.inf

    def __init__(
        self, tasks: Registry, count: int, unit: str, events: Events, shared: Shared
    ) -> None:
        self.unit = unit
        self.shared = shared
        self.num_slots = count
        self.num_blocked = 0
        self.take_back_at: float | None = None
        self.runners = (self,)
        self._tasks = list(tasks.values())
        self._waiting: deque[Lease] = deque()
        self._running: dict[int, Serving] = {}
        self._ended: deque[Ended[Ending]] = deque()
        self._num_begun = 0
        self._has_given_up = False
        self._is_taking = False
        self._asked_to_stop: set[int] = set()
        self._progress: dict[int, tuple[float, str]] = {}
        #: Why a running request was ended, by its number.
        self._why_ended: dict[int, str] = {}
        self._num_serving = 0
        self._starts_slot = False
        self._tells = False
        self._is_closing = False
        # Unlike `threading.Event.set`, its `put` may interrupt any method of the same object, so a
        # signal handler can call it.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        #: The error of a lifespan, or None as soon as all are entered.
        self._entered: SimpleQueue[BaseException | None] = SimpleQueue()
        self._threads = TaskThreads()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rowlease-coroutines", daemon=True)
        self._watch = BlockWatch(self._loop, self._running, events)

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Start the event loop. Wait until lifespans are entered, or `cancelled` returns True.

        Raises:
            ConfigError: a lifespan failed.
        """
        self._thread.start()
        while not cancelled():
            with suppress(Empty):
                if error := self._entered.get(timeout=1.0):
                    raise error
                return

    def wake(self) -> None:
        """End a `poll` that is waiting. Safe from any thread and from signal handlers."""
        self._wakes.put(None)

    def close(self) -> None:
        """Cancel the tasks that are still running, and end the event loop."""
        self._is_closing = True
        self._threads.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SLOTS_SHUTDOWN)
        if not self._thread.is_alive():
            self._loop.close()

    # -- the dispatcher's side -------------------------------------------------------------------

    @property
    def load(self) -> int:
        return len(self._waiting) + len(self._running)

    @property
    def num_busy(self) -> int:
        return min(self.num_slots, self.load)

    @property
    def num_idle(self) -> int:
        return max(0, self.num_slots - self.load)

    def give(self, leases: Sequence[Lease]) -> None:
        """Run these requests, in this order."""
        self._waiting.extend(leases)
        if not self._starts_slot:
            self._starts_slot = True
            self._loop.call_soon_threadsafe(self._start_slot)

    def next_up(self) -> Iterable[Lease]:
        """The requests that run."""
        return [lease for lease, _, _ in tuple(self._running.values())]

    def running(self) -> list[tuple[Lease, float]]:
        """The requests that run. Safe from any thread."""
        return [(lease, since) for lease, since, _ in tuple(self._running.values())]

    def start_take_back(self, at: float) -> None:
        """Allow `finish_take_back` at once."""
        self.take_back_at = at

    def finish_take_back(self) -> list[Lease]:
        """Take back the requests that have not begun, in order."""
        self.take_back_at = None
        back: deque[Lease] = deque()
        with suppress(IndexError):
            while True:
                back.appendleft(self._waiting.pop())
        return list(back)

    def cancels(self, lease: Lease) -> bool:
        return self._tasks[lease.task_number].is_coroutine

    def end(self, lease: Lease, why: str) -> None:
        """Cancel the task of a request that is running."""
        if lease.number in self._running and lease.number not in self._why_ended:
            self._why_ended[lease.number] = why
            self._cancel_soon(lease.number)

    def give_up(self) -> tuple[list[Lease], list[Lease]]:
        """Cancel what is running. Return the requests that ran, and the others, in order."""
        self._has_given_up = True
        others = self.finish_take_back()  # first, because a slot that is free takes the next one
        while self._is_taking:  # the request is in neither collection for a moment
            time.sleep(0)
        ran = list(self.next_up())
        for lease in ran:
            self._cancel_soon(lease.number)
        return ran, others

    def poll(self, pause: float) -> tuple[list[Ended[Ending]], list[Death]]:
        """Wait up to `pause` seconds for answers and deaths, and return them."""
        self._watch.look(self._thread)
        with suppress(Empty):
            self._wakes.get(timeout=pause)
            for _ in range(self._wakes.qsize()):  # not until it is empty: a signal may add to it
                self._wakes.get_nowait()
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        if self._has_given_up:
            return [], []  # `give_up` has returned these requests
        if not self._why_ended:
            return ended, []
        deaths = [
            Death(why, (one.lease, one.seconds), [])
            for one in ended
            if (why := self._why_ended.get(one.lease.number))
        ]
        ended = [one for one in ended if not self._why_ended.pop(one.lease.number, None)]
        return ended, deaths

    def show_stack(self, lease: Lease | None) -> None:
        """Write the stack of a running coroutine to stderr. Safe from any thread."""
        if lease and (serving := self._running.get(lease.number)):
            awaited: Any = serving[2].get_coro()
            while awaited is not None and (frame := getattr(awaited, "cr_frame", None)):
                traceback.print_stack(frame, limit=1)
                awaited = awaited.cr_await

    # -- for leases; safe from any thread --------------------------------------------------------

    def has_begun(self, number: int) -> bool:
        """Whether the n-th request has begun. Always true: they are numbered when they begin."""
        return True

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop."""
        if number in self._running:
            self._asked_to_stop.add(number)

    def prolong(self, number: int, ends: float) -> None:
        """Do nothing: `lease_ends` reads the lease itself."""

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of the n-th request, or None."""
        return self._progress.get(number)

    # -- for the context of a task ---------------------------------------------------------------

    def is_asked_to_stop(self, number: int) -> bool:
        # A thread that exceeded its time limit goes on, but its request is no longer running.
        return number in self._asked_to_stop or number not in self._running

    def lease_ends(self, number: int) -> float | None:
        serving = self._running.get(number)
        return serving and serving[0].ends

    def report_progress(self, number: int, fraction: float, note: str) -> None:
        if number in self._running:
            cut = note.encode(errors="replace")[:MAX_NOTE].decode(errors="replace")
            self._progress[number] = (fraction, cut)

    # -- the loop's side -------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            with self.shared.entered(lambda: self._loop):
                of_lifespans = asyncio.all_tasks(self._loop)
                self._entered.put(None)
                while not self._is_closing:
                    self._loop.run_forever()  # again if a task stopped the event loop by mistake
                rest = asyncio.all_tasks(self._loop) - of_lifespans
                for task in rest:
                    task.cancel()
                if rest:
                    self._loop.run_until_complete(asyncio.wait(rest, timeout=SLOTS_SHUTDOWN / 2))
        except ConfigError as error:
            self._entered.put(error)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _cancel_soon(self, number: int) -> None:
        self.stop(number)
        self._loop.call_soon_threadsafe(self._cancel, number)

    def _cancel(self, number: int) -> None:
        if serving := self._running.get(number):
            serving[2].cancel()

    def _start_slot(self) -> None:
        """Start a slot if a request waits. The slot starts the next one when it waits itself."""
        self._starts_slot = False  # first, so that `give` calls again for what it adds from now on
        if self._waiting and self._num_serving < self.num_slots and not self._is_closing:
            self._num_serving += 1
            self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        """Run requests one by one until none waits."""
        this = asyncio.current_task(self._loop)
        assert this
        turn_ends = now() + TURN
        try:
            while not self._is_closing:
                self._is_taking = True
                try:
                    lease = self._waiting.popleft()
                except IndexError:
                    self._is_taking = False
                    return
                if self._waiting and not self._starts_slot and self._num_serving < self.num_slots:
                    self._starts_slot = True
                    self._loop.call_soon(self._start_slot)
                if (ended_at := await self._run_one(lease, this)) >= turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = ended_at + TURN
        finally:
            self._num_serving -= 1

    async def _run_one(self, lease: Lease, this: asyncio.Task[None]) -> float:
        started = now()
        lease.number = number = self._num_begun = self._num_begun + 1
        lease.runner = self
        self._running[number] = lease, started, this
        self._is_taking = False
        ending: Ending
        if started > lease.ends or lease.lost:
            ending = NotRun()
        else:
            context = Context(lease.request, number, lease.ends, self)
            running.set(context)
            task, payload = self._tasks[lease.task_number], lease.request.payload
            if task.is_coroutine:
                ending = await attempt(task, context, payload)
            else:
                expire = partial(self.stop, number)
                ending = await self._threads.attempt(task, context, payload, expire)
            if this.cancelling():
                this.uncancel()  # the slot goes on
        ended_at = now()
        del self._running[number]
        if self._asked_to_stop or self._progress:
            self._asked_to_stop.discard(number)
            self._progress.pop(number, None)
        self._ended.append(Ended(lease, ending, ended_at - started))
        if not self._tells:
            self._tells = True
            self._loop.call_soon(self._tell)
        return ended_at

    def _tell(self) -> None:
        """Wake the dispatcher, once in each turn of the loop."""
        self._tells = False
        self._wakes.put(None)


async def attempt(task: Task[..., Any], context: Context, payload: str) -> Ending:
    """Run one request. An exception of the task becomes a `Failure`."""
    if middleware.added or task.soft_time_limit:
        return await attempt_within(task, context, payload)
    try:
        result = await task.run_coroutine(payload)
    except BaseException as error:
        return failed(task, error)
    return returned(context, result)


async def attempt_within(task: Task[..., Any], context: Context, payload: str) -> Ending:
    """Run one request with middleware, or with a soft time limit."""
    limit = task.soft_time_limit
    timeout = asyncio.timeout(limit.total_seconds() if limit else None)
    try:
        async with timeout:
            with middleware.around_run(task, context):
                result = await task.run_coroutine(payload)
        return returned(context, result)
    except TimeoutError as error:
        if not timeout.expired():
            return failed(task, error)
        message = f"the task ran past its soft time limit of {limit}"
        return failed(task, SoftTimeLimitExceeded(message))
    except BaseException as error:
        return failed(task, error)
