"""A slot of the event loop: it runs one request at a time, as a coroutine or in a thread."""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.errors import SoftTimeLimitExceeded
from rowlease.middleware import around_run
from rowlease.tasks.task import Task
from rowlease.worker.attempt import Ending, NotRun, Returned, failed
from rowlease.worker.claims.leases import Lease
from rowlease.worker.slots.shared_memory import MAX_NOTE
from rowlease.worker.slots.slot import Answer
from rowlease.worker.slots.threads import attempt as attempt_in_thread


class Owner(Protocol):
    """The members of `Coroutines` that a slot uses."""

    tasks: list[Task[..., Any]]
    is_closing: bool

    def call(self, call: Callable[[], None]) -> None: ...
    def answer(self, answer: Answer) -> None: ...


class CoroutineSlot:
    """A slot that runs its requests one by one. `rowlease.worker.slots.slot.Slot` documents it.

    The dispatcher's thread calls `give`, `finish_take_back` and `take_unfinished`. The event loop's
    thread runs the tasks.
    """

    ready = True
    has_closed_pipe = False

    def __init__(self, owner: Owner) -> None:
        self.held: deque[Lease] = deque()
        self.end_reason: str | None = None
        self.is_blocked = False
        self.take_back_at: float | None = None
        self._owner = owner
        self._queue: deque[Lease] = deque()
        self._given = 0
        self._begun = 0
        self._stop = 0
        self._progress: tuple[int, float, str] | None = None
        self._current: tuple[Lease, float] | None = None
        self._serving: asyncio.Task[None] | None = None

    # -- the dispatcher's side -------------------------------------------------------------------

    @property
    def load(self) -> int:
        """The number of requests held."""
        return len(self.held)

    @property
    def is_open(self) -> bool:
        """Whether this slot may be given more requests."""
        return not (self.is_blocked and self.held) and self.end_reason is None

    def give(self, leases: Sequence[Lease]) -> None:
        """Run these requests, in this order."""
        for lease in leases:
            self._given += 1
            lease.slot, lease.number = self, self._given
        self.held.extend(leases)
        self._queue.extend(leases)
        self._owner.call(self._wake)

    def start_take_back(self, at: float) -> None:
        """Allow `finish_take_back` at once."""
        self.take_back_at = at

    def finish_take_back(self) -> list[Lease]:
        """Take back the requests that have not begun, in order."""
        self.take_back_at = None
        back: deque[Lease] = deque()
        while self._queue:
            try:
                back.appendleft(self._queue.pop())
            except IndexError:
                break
        for lease in back:
            lease.slot = None
            self.held.remove(lease)
        return list(back)

    def running(self) -> tuple[Lease, float] | None:
        """The request that is running, and when it began; None if the slot is idle."""
        return self._current

    def has_begun(self, number: int) -> bool:
        """Whether the n-th request has begun. Safe from any thread."""
        return self._begun >= number

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop. Safe from any thread."""
        self._stop = number

    def prolong(self, number: int, ends: float) -> None:
        """Do nothing: `lease_ends` reads the lease itself."""

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of the n-th request, or None. Safe from any thread."""
        last = self._progress
        return last[1:] if last and last[0] == number else None

    def kill(self) -> None:
        """Cancel the task that is running."""
        if current := self._current:
            number = current[0].number
            self.stop(number)
            self._owner.call(lambda: self._cancel(number))

    def take_unfinished(self) -> tuple[tuple[Lease, float] | None, list[Lease]]:
        """Give up all requests. Return the running one with its run time, and the rest."""
        others = self.finish_take_back()
        current = self._current
        self.held.clear()
        return current and (current[0], now() - current[1]), others

    def show_stack(self) -> None:
        """Write the stack of the coroutine to stderr. Safe from any thread."""
        if serving := self._serving:
            awaited: Any = serving.get_coro()
            while awaited is not None and (frame := getattr(awaited, "cr_frame", None)):
                traceback.print_stack(frame, limit=1)
                awaited = awaited.cr_await

    # -- the context's side ----------------------------------------------------------------------

    def is_asked_to_stop(self, number: int) -> bool:
        # A thread that exceeded its time limit goes on, but it is no longer the current one.
        return self._stop == number or self._current is None or number < self._begun

    def lease_ends(self, number: int) -> float | None:
        current = self._current
        return current[0].ends if current and current[0].number == number else None

    def report_progress(self, number: int, fraction: float, note: str) -> None:
        self._progress = (
            number,
            fraction,
            note.encode(errors="replace")[:MAX_NOTE].decode(errors="replace"),
        )

    # -- the loop's side -------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._serving is None:
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    def _cancel(self, number: int) -> None:
        if self._serving and self._current and self._current[0].number == number:
            self._serving.cancel()

    async def _serve(self) -> None:
        try:
            while self._queue and not self._owner.is_closing:
                try:
                    lease = self._queue.popleft()
                except IndexError:
                    break  # the dispatcher has just taken the request back
                await self._run(lease)
        finally:
            self._serving = None

    async def _run(self, lease: Lease) -> None:
        request = lease.request
        started = now()
        self._current = lease, started
        self._begun = lease.number
        ending: Ending
        if started > lease.ends:
            ending = NotRun()
        else:
            running.set(context := Context.of(request, lease.number, lease.ends, self))
            task = self._owner.tasks[lease.task_number]
            if task.is_coroutine:
                ending = await attempt(task, context, request.payload)
            else:
                expire = partial(self.stop, lease.number)
                ending = await attempt_in_thread(task, context, request.payload, expire)
            if self._serving and self._serving.cancelling():
                self._serving.uncancel()  # the slot goes on
        self._current = None
        self._owner.answer(Answer(self, lease, ending, now() - started))


async def attempt(task: Task[..., Any], context: Context, payload: str) -> Ending:
    """Run one request. An exception of the task becomes a `Failure`."""
    if limit := task.soft_time_limit:
        return await attempt_within(limit, task, context, payload)
    try:
        with around_run(task, context):
            return Returned(await task.run_coroutine(payload))
    except BaseException as error:
        return failed(task, error)


async def attempt_within(
    limit: timedelta, task: Task[..., Any], context: Context, payload: str
) -> Ending:
    """Run one request with a soft time limit."""
    timeout = asyncio.timeout(limit.total_seconds())
    try:
        async with timeout:
            with around_run(task, context):
                return Returned(await task.run_coroutine(payload))
    except TimeoutError as error:
        if not timeout.expired():
            return failed(task, error)
        message = f"the task ran past its soft time limit of {limit}"
        return failed(task, SoftTimeLimitExceeded(message))
    except BaseException as error:
        return failed(task, error)
