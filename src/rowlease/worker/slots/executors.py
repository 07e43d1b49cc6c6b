"""Chooses the executor of a worker, and the number of its slots."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

from rowlease.cores import usable_cores
from rowlease.errors import ConfigError
from rowlease.events import Events
from rowlease.lifespans import Shared
from rowlease.tasks.loading import set_up
from rowlease.tasks.settings import check_executor
from rowlease.tasks.task import Registry
from rowlease.worker.settings import OF_CHILDREN, WorkerSettings
from rowlease.worker.slots.child_pool import ChildPool
from rowlease.worker.slots.child_process import Limits
from rowlease.worker.slots.event_loop import EventLoop

#: The defaults of each executor: the number of slots (None: one for each usable core), and the
#: maximum number of requests to prefetch for each slot. There are fewer slots for threads than for
#: coroutines, because each thread has a stack.
DEFAULTS: dict[str, tuple[int | None, int]] = {
    "process": (None, 500),
    "thread": (32, 30),
    "coroutine": (100, 30),
}


class Executor(NamedTuple):
    """The executor of a worker, with its settings.

    Attributes:
        name: a key of `DEFAULTS`.
        concurrency: the number of slots.
        prefetch: the maximum number of requests to prefetch for each slot.
        set_up: the message that sets up a child process; None for other executors.
        limits: after which another child process replaces one.
    """

    name: str
    concurrency: int
    prefetch: int
    set_up: dict[str, Any] | None
    limits: Limits

    def slots(self, tasks: Registry, events: Events, dsn: str) -> ChildPool | EventLoop:
        """Create the slots without starting them.

        Args:
            dsn: the database of the clients of tasks.
        """
        if self.set_up is None:
            return EventLoop(tasks, self.concurrency, self.name, events, Shared(dsn))
        return ChildPool({**self.set_up, "dsn": dsn}, self.concurrency, events, self.limits)


def executor_for(tasks: Registry, settings: WorkerSettings) -> Executor:
    """The executor that the settings name, or else the executor of the tasks.

    Raises:
        ConfigError: there is no such executor, tasks name different executors, or a task cannot run
            in the executor.
    """
    name = settings.executor or executor_of_tasks(tasks)
    check_executor(name)
    if name == "coroutine":
        for task in tasks.values():
            if not task.is_coroutine:
                raise ConfigError(
                    f"task {task.name} is not an `async def`, so it cannot run as a coroutine; "
                    "the executor 'thread' runs both"
                )
    for setting in OF_CHILDREN:
        if (value := getattr(settings, setting)) and name != "process":
            raise ConfigError(
                f"{setting} is {value}, but the executor {name!r} has no child processes"
            )
    if settings.max_memory_per_child and sys.platform != "linux":
        raise ConfigError("max_memory_per_child needs Linux, which tells the memory of a process")
    slots, ahead = DEFAULTS[name]
    return Executor(
        name,
        settings.concurrency or slots or max(1, usable_cores() // settings.processes),
        ahead if settings.prefetch is None else settings.prefetch,
        set_up(tasks) if name == "process" else None,
        Limits(settings.max_tasks_per_child or math.inf, settings.max_memory_per_child or math.inf),
    )


def executor_of_tasks(tasks: Registry) -> str:
    """The executor that the tasks name; else "coroutine" if all are `async def`, else "process".

    Raises:
        ConfigError: tasks name different executors.
    """
    named = {task.executor: task for task in tasks.values() if task.executor}
    if len(named) > 1:
        choices = " and ".join(f"task {task.name} names {name!r}" for name, task in named.items())
        raise ConfigError(
            f"a worker has one executor, but {choices}; give each a queue and a worker of its own, "
            "or set the executor of the worker"
        )
    default = "coroutine" if all(task.is_coroutine for task in tasks.values()) else "process"
    return next(iter(named), default)
