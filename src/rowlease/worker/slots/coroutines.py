"""Runs tasks in this process: many slots that share one event loop, in a thread of its own.

To the dispatcher they are slots like child processes, but what runs in one can only be cancelled. A
coroutine that blocks holds up all of them; plain functions run in threads.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.errors import SoftTimeLimitExceeded
from rowlease.model import Failure
from rowlease.tasks import Registry, Task
from rowlease.worker.attempt import Ending, NotRun, Returned, failed
from rowlease.worker.claims.leases import Lease
from rowlease.worker.slots.shared_memory import MAX_NOTE
from rowlease.worker.slots.slot import Answer, Death
from rowlease.worker.slots.threads import attempt as attempt_in_thread
from rowlease.worker.times import SLOTS_SHUTDOWN

#: Most tasks have no limit, and asyncio's way of saying so takes longer than a short task.
NO_TIMEOUT = nullcontext()


class CoroutineSlot:
    """One slot: runs what it is given, one after the other.

    `give`, `finish_take_back` and `take_unfinished` belong to the dispatcher's thread, `serve` to the loop's.

    Attributes: see `rowlease.worker.slots.slot.Slot`.
    """

    ready = True
    has_closed_pipe = False

    def __init__(self, owner: Coroutines) -> None:
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
        """How many are held."""
        return len(self.held)

    @property
    def is_open(self) -> bool:
        """May it be given more?"""
        return not (self.is_blocked and self.held) and self.end_reason is None

    def give(self, leases: Sequence[Lease]) -> None:
        """Run these, in this order."""
        for lease in leases:
            self._given += 1
            lease.slot, lease.number = self, self._given
        self.held.extend(leases)
        self._queue.extend(leases)
        self._owner.call(self._wake)

    def start_take_back(self, at: float) -> None:
        """`finish_take_back` has what it has not begun, at once."""
        self.take_back_at = at

    def finish_take_back(self) -> list[Lease]:
        """What it has not begun and now never will, in order."""
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
        """The request it runs now, and since when."""
        return self._current

    def has_begun(self, number: int) -> bool:
        """Has it taken up its n-th request? Safe to ask from any thread."""
        return self._begun >= number

    def stop(self, number: int) -> None:
        """Ask its n-th request to stop. Safe in any thread."""
        self._stop = number

    def prolong(self, number: int, ends: float) -> None:
        """Nothing to do: the context asks the lease itself."""

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of its n-th request, if that runs. Safe in any thread."""
        last = self._progress
        return last[1:] if last and last[0] == number else None

    def kill(self) -> None:
        """Cancel what it runs now."""
        if current := self._current:
            number = current[0].number
            self.stop(number)
            self._owner.call(lambda: self._cancel(number))

    def take_unfinished(self) -> tuple[tuple[Lease, float] | None, list[Lease]]:
        """When it is given up: what it runs and for how long, and what it never began."""
        others = self.finish_take_back()
        current = self._current
        self.held.clear()
        return current and (current[0], now() - current[1]), others

    def show_stack(self) -> None:
        """Write the stack of its coroutine to stderr. Safe in any thread."""
        if serving := self._serving:
            awaited: Any = serving.get_coro()
            while awaited is not None and (frame := getattr(awaited, "cr_frame", None)):
                traceback.print_stack(frame, limit=1)
                awaited = awaited.cr_await

    # -- the context's side ----------------------------------------------------------------------

    def is_asked_to_stop(self, number: int) -> bool:
        # A thread that was left behind is not the current one any more.
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
                    break  # taken back at this moment
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
            running.set(Context.of(request, lease.number, lease.ends, self))
            task = self._owner.tasks[lease.task_number]
            if task.is_coroutine:
                ending = await attempt(task, request.payload)
            else:
                expire = partial(self.stop, lease.number)
                ending = await attempt_in_thread(task, request.payload, expire)
            if self._serving and self._serving.cancelling():
                self._serving.uncancel()  # the slot goes on
        self._current = None
        self._owner.answer(Answer(self, lease, ending, now() - started))


async def attempt(task: Task, payload: str) -> Returned | Failure:
    """Run one request; whatever the task raises becomes text."""
    limit = task.soft_time_limit
    timeout = asyncio.timeout(limit.total_seconds()) if limit else None
    try:
        async with timeout or NO_TIMEOUT:
            return Returned(await task.run_coroutine(payload))
    except TimeoutError as error:
        if timeout is None or not timeout.expired():
            return failed(task, error)
        over = f"the task ran past its soft time limit of {limit}"
        return failed(task, SoftTimeLimitExceeded(over))
    except BaseException as error:
        return failed(task, error)


class Coroutines:
    """The slots of a worker that runs its tasks in its own process; see `slot.Slots`.

    Args:
        count: how many slots.
        unit: what runs in one of them.
    """

    num_deaths = 0

    def __init__(self, tasks: Registry, count: int, unit: str) -> None:
        self.unit = unit
        self.tasks = list(tasks.values())
        self.children = [CoroutineSlot(self) for _ in range(count)]
        self.is_closing = False
        self._answers: deque[Answer] = deque()
        self._woken = threading.Event()
        self._calls: list[Callable[[], None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rowlease-coroutines", daemon=True)

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Start the event loop."""
        self._thread.start()

    def poll(self, pause: float) -> tuple[list[Answer], list[Death]]:
        """Wait up to `pause` seconds for something to happen, and return what did."""
        if self._calls:
            calls, self._calls = self._calls, []
            self._loop.call_soon_threadsafe(lambda: [call() for call in calls])
        self._woken.wait(pause)
        self._woken.clear()
        answers: list[Answer] = []
        deaths: list[Death] = []
        while self._answers:
            answer = self._answers.popleft()
            slot, lease = answer.slot, answer.lease
            if not slot.held or slot.held[0] is not lease:
                continue  # given up
            slot.held.popleft()
            lease.slot = None
            if slot.end_reason:
                deaths.append(Death(slot.end_reason, (lease, answer.seconds), []))
                slot.end_reason = None
            else:
                answers.append(answer)
        return answers, deaths

    def wake(self) -> None:
        """End a `poll` that waits. Safe in any thread, and in signal handlers."""
        self._woken.set()

    def close(self) -> None:
        """Cancel what still runs, and end the event loop."""
        self.is_closing = True
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SLOTS_SHUTDOWN)
        if not self._thread.is_alive():
            self._loop.close()

    def call(self, call: Callable[[], None]) -> None:
        """Have the loop's thread call this, with the next `poll`."""
        self._calls.append(call)

    def answer(self, answer: Answer) -> None:
        """Hand an answer over to the dispatcher's thread."""
        self._answers.append(answer)
        if not self._woken.is_set():  # `poll` forgets it first, and then looks
            self._woken.set()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self.is_closing:
            self._loop.run_forever()  # ends, too, where a task stops the loop, which is not its own
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.wait(rest, timeout=SLOTS_SHUTDOWN / 2))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
