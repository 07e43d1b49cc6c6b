"""Simulated time, in which threads are greenlets: each run with the same seed is the same."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet


class World:
    """Calls what is due, in the order of its time.

    Attributes:
        time: in seconds.
        steps: how many times something was called.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.time = 0.0
        self.steps = 0
        self._due: list[tuple[float, int, Callable[[], object], Process | None]] = []
        self._numbers = count()
        self._loop = getcurrent()

    def after(self, seconds: float, call: Callable[[], object], of: Process | None = None) -> None:
        """Call later; what a stopped process has to do waits, and a dead one does nothing."""
        heapq.heappush(self._due, (self.time + seconds, next(self._numbers), call, of))

    def run(self, until: Callable[[], bool], longest: float) -> None:
        """Run on until something is so, for so many seconds at most."""
        ends = self.time + longest
        while self._due and self._due[0][0] <= ends and not until():
            self.time, _, call, of = heapq.heappop(self._due)
            if of is None or of.goes_on_at <= self.time:
                self.steps += 1
                call()
            elif of.goes_on_at < math.inf:
                self.after(of.goes_on_at - self.time, call, of)

    def pause(self) -> None:
        """Let the others run, until this greenlet is switched to."""
        self._loop.switch()

    # As the module `time`:

    def clock_gettime(self, clock: int) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        here: Any = getcurrent()
        self.after(seconds, here.switch, here.process)
        self.pause()


class Process:
    """Its threads stop and die together.

    Attributes:
        goes_on_at: until when it is stopped; never, if it is dead.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.goes_on_at = 0.0
        self._threads: list[greenlet] = []

    def start(self, run: Callable[..., object], *arguments: object) -> None:
        thread: Any = greenlet(run, parent=self.world._loop)
        thread.process = self
        self._threads.append(thread)
        self.world.after(0.0, lambda: thread.switch(*arguments), self)

    def kill(self) -> None:
        self.goes_on_at = math.inf
        for thread in self._threads:
            if thread:  # it has begun, and has not ended
                thread.throw(GreenletExit)


class Bell:
    """As `threading.Event`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rings = False
        self._waits: Any = None

    def wait(self, timeout: float | None = None) -> bool:
        if not self._rings:
            here: Any = getcurrent()
            self._waits = here
            if timeout is not None:
                self._world.after(timeout, lambda: self._wake(here, turn), here.process)
            turn = self._turn = object()
            self._world.pause()
        return self._rings

    def _wake(self, waits: Any, turn: object) -> None:
        if self._waits is waits and self._turn is turn:
            self._waits = None
            waits.switch()

    def set(self) -> None:
        if not self._rings:
            self._rings = True
            if self._waits is not None:
                waits, turn = self._waits, self._turn
                self._world.after(0.0, lambda: self._wake(waits, turn), waits.process)

    def is_set(self) -> bool:
        return self._rings

    def clear(self) -> None:
        self._rings = False
