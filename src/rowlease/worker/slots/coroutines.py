"""Runs tasks in the worker's process, in slots that share one event loop.

The event loop runs in its own thread. The dispatcher uses these slots like child processes, but
their tasks can only be cancelled, not killed. A coroutine that blocks the loop delays all slots.
Tasks that are plain functions run in threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from rowlease.tasks.task import Registry
from rowlease.worker.slots.coroutine_slot import CoroutineSlot
from rowlease.worker.slots.slot import Answer, Death
from rowlease.worker.timings import SLOTS_SHUTDOWN


class Coroutines:
    """The slots of a worker that runs its tasks in its own process; see `slot.Slots`.

    Args:
        count: the number of slots.
        unit: the word for one slot in messages.
    """

    num_deaths = 0

    def __init__(self, tasks: Registry, count: int, unit: str) -> None:
        self.unit = unit
        self.tasks = list(tasks.values())
        self.children = [CoroutineSlot(self) for _ in range(count)]
        self.is_closing = False
        # Unlike `threading.Event.set`, its `put` may interrupt any method of the same object, so a
        # signal handler can call it. None only ends a `poll` that is waiting.
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()
        self._calls: list[Callable[[], None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rowlease-coroutines", daemon=True)

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Start the event loop."""
        self._thread.start()

    def poll(self, pause: float) -> tuple[list[Answer], list[Death]]:
        """Wait up to `pause` seconds for answers and deaths, and return them."""
        if self._calls:
            calls, self._calls = self._calls, []
            self._loop.call_soon_threadsafe(lambda: [call() for call in calls])
        answers: list[Answer] = []
        deaths: list[Death] = []
        for answer in self._take_answers(pause):
            slot, lease = answer.slot, answer.lease
            if not slot.held or slot.held[0] is not lease:
                continue  # `take_unfinished` has given up this request
            slot.held.popleft()
            lease.slot = None
            if slot.end_reason:
                deaths.append(Death(slot.end_reason, (lease, answer.seconds), []))
                slot.end_reason = None
            else:
                answers.append(answer)
        return answers, deaths

    def wake(self) -> None:
        """End a `poll` that is waiting. Safe from any thread and from signal handlers."""
        self._answers.put(None)

    def close(self) -> None:
        """Cancel the tasks that are still running, and end the event loop."""
        self.is_closing = True
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(SLOTS_SHUTDOWN)
        if not self._thread.is_alive():
            self._loop.close()

    def call(self, call: Callable[[], None]) -> None:
        """Have the loop's thread call a function after the dispatcher's next call of `poll`."""
        self._calls.append(call)

    def answer(self, answer: Answer) -> None:
        """Pass an answer to the dispatcher's thread."""
        self._answers.put(answer)

    def _take_answers(self, pause: float) -> list[Answer]:
        try:
            taken = [self._answers.get(timeout=pause)]
        except Empty:
            return []
        # No other thread takes answers, so none of these calls waits.
        taken += [self._answers.get() for _ in range(self._answers.qsize())]
        return [answer for answer in taken if answer]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self.is_closing:
            self._loop.run_forever()  # again if a task stopped the event loop by mistake
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        if rest:
            self._loop.run_until_complete(asyncio.wait(rest, timeout=SLOTS_SHUTDOWN / 2))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
