"""Which kind of slots a worker has, and how many."""

from __future__ import annotations

from typing import NamedTuple

from rowlease.errors import ConfigError
from rowlease.events import Events
from rowlease.task_loading import set_up
from rowlease.tasks import Registry
from rowlease.worker.cores import usable_cores
from rowlease.worker.settings import WorkerSettings
from rowlease.worker.slots.child_pool import ChildPool
from rowlease.worker.slots.coroutines import Coroutines

#: Per executor, how many slots (None: the cores), and how many requests each holds ahead at most.
#: Threads wait for other machines, as coroutines do, but each has a stack.
DEFAULTS: dict[str, tuple[int | None, int]] = {
    "process": (None, 500),
    "thread": (32, 30),
    "coroutine": (100, 30),
}


class Executor(NamedTuple):
    """What runs a worker's tasks.

    Attributes:
        name: of `DEFAULTS`.
        concurrency: how many slots.
        prefetch: how many short requests to hold ahead for each slot, at most.
        set_up: what child processes need, where there are some.
    """

    name: str
    concurrency: int
    prefetch: int
    set_up: bytes | None

    def slots(self, tasks: Registry, events: Events) -> ChildPool | Coroutines:
        """The slots, not started yet."""
        if self.set_up is None:
            return Coroutines(tasks, self.concurrency, self.name)
        return ChildPool(self.set_up, self.concurrency, events)


def executor_for(tasks: Registry, settings: WorkerSettings) -> Executor:
    """The executor of a worker: the one that its settings name, or else the one its tasks want.

    Raises:
        ConfigError: there is no such executor; tasks want different ones; a task cannot run there.
    """
    name = settings.executor or executor_of_tasks(tasks)
    if name not in DEFAULTS:
        raise ConfigError(f"executor is {name!r}; it must be one of {', '.join(DEFAULTS)}")
    if name == "coroutine":
        for task in tasks.values():
            if not task.is_coroutine:
                raise ConfigError(
                    f"the task {task.name} is no `async def`, so it cannot run as a coroutine; "
                    "the executor 'thread' runs both"
                )
    slots, ahead = DEFAULTS[name]
    return Executor(
        name,
        settings.concurrency or slots or max(1, usable_cores() // settings.processes),
        ahead if settings.prefetch is None else settings.prefetch,
        set_up(tasks) if name == "process" else None,
    )


def executor_of_tasks(tasks: Registry) -> str:
    """The executor that the tasks name; without that, coroutines where all of them are such."""
    named = {task.executor: task for task in tasks.values() if task.executor}
    if len(named) > 1:
        wishes = " and ".join(f"{task.name} wants {name!r}" for name, task in named.items())
        raise ConfigError(
            f"a worker has one executor, but the task {wishes}; give each a queue and a worker of "
            "its own, or tell the worker which executor to use"
        )
    alike = all(task.is_coroutine for task in tasks.values())
    return next(iter(named), None) or ("coroutine" if alike else "process")
