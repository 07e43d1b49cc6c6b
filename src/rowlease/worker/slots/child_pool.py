"""Starts the child processes of a worker, watches them, and replaces those that die."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.errors import ConfigError
from rowlease.events import ChildDied, ChildStarted, Events
from rowlease.worker.attempt import Ending
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.slots.child_process import NO_LIMITS, ChildProcess, Limits
from rowlease.worker.slots.slot import Death
from rowlease.worker.timings import SLOTS_SHUTDOWN

#: Seconds after which a child certainly sees that the worker waits, and wakes it. Until then, the
#: worker looks for answers itself.
SEEN_SECONDS = 0.01
#: The end of a child that has reached one of its limits.
RETIRED = "has run its last request"
#: Seconds in which the last lines of the children are logged when the worker ends. Their pipes are
#: open for longer only if a task has left a process that was forked from its child.
LAST_OUTPUT = 0.5


class ChildPool:
    """The child processes of a worker. Only `wake` may be called from other threads.

    Args:
        set_up: the message that sets up a child (`rowlease.tasks.loading.set_up`).
        count: the number of children to keep running.
        limits: after which another child replaces one.

    Attributes:
        runners: the children that are running, whether ready or not.
        num_deaths: the number of children that have died.
    """

    unit = "process"

    def __init__(
        self, set_up: dict[str, Any], count: int, events: Events, limits: Limits = NO_LIMITS
    ) -> None:
        self.runners: list[ChildProcess] = []
        self.num_deaths = 0
        self._set_up = set_up
        self._limits = limits
        self._count = count
        self._events = events
        self._starts = [(0.0, slot) for slot in range(count)]
        self._restart_pauses = Backoff(0.1, 5.0)  # after deaths during start-up
        self._start_error: str | None = None
        self._answers: list[Ended[Ending]] = []
        self._deaths: list[Death] = []
        self._outputs: list[Thread] = []
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._on_wake)

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Start all children at once. Wait until they are ready, or `cancelled` returns True.

        A child that dies before it is ready is replaced: the kernel may have killed it because
        memory ran out.

        Raises:
            ConfigError: a child could not import the tasks, or a lifespan failed.
        """
        while not cancelled() and sum(one.ready for one in self.runners) < self._count:
            self.poll(1.0)
            if self._start_error is not None:
                raise ConfigError(f"a child process {self._start_error}")

    def poll(self, pause: float) -> tuple[list[Ended[Ending]], list[Death]]:
        """Wait up to `pause` seconds for answers and deaths, and return them."""
        at = now()
        for start in [start for start in self._starts if start[0] <= at]:
            self._starts.remove(start)
            self._start(start[1])
        until = min((start[0] for start in self._starts), default=at + pause)
        pause = max(0.0, min(pause, until - at))
        for child in self.runners:
            if child.num_left <= 0 and not child.held and child.end_reason is None:
                child.end_reason = RETIRED
                child.close_requests()
            self._watch_writing(child)
            child.kill_if_pipe_closed(at)
            child.begin_wait()
        waited = tuple(self.runners)
        for key, _ in self._wait(pause):
            key.data()
        for child in waited:
            child.end_wait()
            self._answers += child.answers()
        answers, self._answers = self._answers, []
        deaths, self._deaths = self._deaths, []
        return answers, deaths

    def _wait(self, pause: float) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until a descriptor is ready, or until a child that sent no wake-up has answered."""
        ready = self._selector.select(0.0 if self._has_answers else min(pause, SEEN_SECONDS))
        if ready or pause <= SEEN_SECONDS or self._has_answers:
            return ready
        return self._selector.select(pause - SEEN_SECONDS)

    @property
    def _has_answers(self) -> bool:
        return any(child.has_answers for child in self.runners)

    def wake(self) -> None:
        """End a `poll` that is waiting. Safe from any thread and from signal handlers."""
        with suppress(OSError):
            self._waker.send(b"\0")

    def close(self) -> None:
        """End all children, kill those that do not end in time, and release everything."""
        for child in self.runners:
            child.close_requests()
        until = now() + SLOTS_SHUTDOWN
        for child in self.runners:
            child.close(max(0.0, until - now()))
        self.runners.clear()
        until = max(until, now() + LAST_OUTPUT)
        for output in self._outputs:
            output.join(max(0.0, until - now()))
        self._selector.close()
        self._waker.close()
        self._woken.close()

    # -- one child -------------------------------------------------------------------------------

    def _start(self, slot: int) -> None:
        try:
            child = ChildProcess(slot, self._set_up, self._limits)
        except OSError as error:
            self._deaths.append(Death(f"could not be started: {error}", None, []))
            self._start_later(slot)
            return
        self.runners.append(child)
        self._outputs = [one for one in self._outputs if one.is_alive()]
        self._outputs.append(child.output)
        self._selector.register(child.outcomes_fd, selectors.EVENT_READ, partial(self._read, child))
        if child.pidfd is not None:
            self._selector.register(child.pidfd, selectors.EVENT_READ, partial(self._remove, child))

    def _start_later(self, slot: int) -> None:
        self._starts.append((now() + next(self._restart_pauses), slot))

    def _watch_writing(self, child: ChildProcess) -> None:
        if child.has_unsent == child.is_watched_for_writing:
            return
        child.is_watched_for_writing = child.has_unsent
        if child.has_unsent:
            self._selector.register(child.requests_fd, selectors.EVENT_WRITE, child.write)
        else:
            self._selector.unregister(child.requests_fd)

    def _read(self, child: ChildProcess) -> None:
        if child not in self.runners:
            return  # removed by an earlier event of this poll
        was_ready = child.ready
        child.read_pipe()
        if child.ready and not was_ready:
            self._restart_pauses.reset()
            self._events.emit(ChildStarted(child.slot, child.pid))
        if child.has_closed_pipe:
            self._selector.unregister(child.outcomes_fd)
            if child.pidfd is None:
                self._remove(child)

    def _remove(self, child: ChildProcess) -> None:
        """Read the last answers of a dead child, release it and start another."""
        if not child.has_closed_pipe:
            self._read(child)
        if not child.has_closed_pipe:
            self._selector.unregister(child.outcomes_fd)
        self._answers += child.answers()
        running, others = child.take_unfinished()
        if child.pidfd is not None:
            self._selector.unregister(child.pidfd)
        if child.is_watched_for_writing:
            self._selector.unregister(child.requests_fd)
        self.runners.remove(child)
        how = child.close()
        if how == RETIRED:
            self._start(child.slot)
            return
        self._start_error = self._start_error or child.start_error
        self.num_deaths += 1
        self._deaths.append(Death(how, running, others))
        self._events.emit(ChildDied(child.slot, child.pid, how, running and running[0].request))
        if child.ready:
            self._start(child.slot)
        else:
            self._start_later(child.slot)

    def _on_wake(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
