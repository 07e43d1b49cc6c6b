"""The settings of a worker and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, cast

from rowlease.errors import ConfigError

#: The smallest value of the setting `lease`.
SHORTEST_LEASE = timedelta(milliseconds=100)
#: The largest value of the setting `lease`.
LONGEST_LEASE = timedelta(days=1)
#: The settings that only the executor "process" has.
OF_CHILDREN = ("max_tasks_per_child", "max_memory_per_child")


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker.

    Attributes:
        queues: the queues to claim from. In a list, the most important queue comes first: a queue
            is served only when the queues before it are empty. In a dict of weights (1 to 1000),
            each queue gets its share of the claims while all queues have requests. None means the
            queues of the tasks ("default" for a task without one), with equal weights.
        concurrency: the number of slots. None means one for each usable core, 32 for threads, or
            100 for coroutines.
        executor: where tasks run. "process" runs the tasks of each slot in a child process, so that
            a crash harms no other task. "thread" and "coroutine" run all tasks in this process,
            which suits tasks that wait for other machines. There, plain functions run in threads
            and coroutines in one event loop. A thread cannot be killed: a task that exceeds its
            time limit fails, but its thread goes on, and a soft time limit only sets
            `current().should_stop`. None means the executor that the tasks name. If no task names
            an executor, None means "coroutine" if every task is an `async def`, and else "process".
        prefetch: the maximum number of requests to prefetch for each slot. None means 500 for child
            processes and 30 otherwise. The run time of tasks limits it further: a slot holds at
            most 200 ms of work, so it prefetches nothing while tasks take over 100 ms.
        lease: how long a lease lasts before it must be renewed (0.1 s to 1 day). None means the
            setting of each queue. Other workers get the requests of a dead worker after this time.
        consumer_priority: the priority of this worker; workers with a larger number get requests
            first.
        max_tasks_per_child: how many requests a child process runs before another one replaces it,
            which bounds what tasks leak. None means no limit.
        max_memory_per_child: the resident memory of a child process, in MiB, above which another
            one replaces it as soon as its task has ended. Linux only. None means no limit.
        burst: whether to stop when nothing runs and no request may start now. Requests that are
            scheduled or paused, or that wait for a rate or a batch, stay (decision 99 in
            docs/decisions).
        grace: how long running tasks may go on after the first call of `stop` (30 s).
        cancel_grace: how long a running task may go on after its request was cancelled (10 s). Then
            its child process is killed. A thread is given up, but runs on. A coroutine is cancelled
            at once where it awaits. `kill=True` of a cancel leaves no such time.
        poll: the longest time that an idle worker sleeps without a notification, give or take 20 %.
            None means 5 s, or 1 s if the database sends no notifications.
        processes: the number of workers like this one that share the host's cores (1 or more).

    Raises:
        ConfigError: a setting is wrong.
    """

    queues: Sequence[str] | Mapping[str, int] | None = None
    concurrency: int | None = None
    executor: str | None = None
    prefetch: int | None = None
    lease: timedelta | None = None
    consumer_priority: int = 0
    max_tasks_per_child: int | None = None
    max_memory_per_child: int | None = None
    burst: bool = False
    grace: timedelta = timedelta(seconds=30)
    cancel_grace: timedelta = timedelta(seconds=10)
    poll: timedelta | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        if self.lease is not None and not SHORTEST_LEASE <= self.lease <= LONGEST_LEASE:
            raise ConfigError(f"lease is {self.lease}; it must be 100 ms to 1 day")
        if self.processes < 1:
            raise ConfigError(f"processes is {self.processes}; it must be 1 or more")
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigError(f"concurrency is {self.concurrency}; it must be 1 or more")
        for name in OF_CHILDREN:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be 1 or more")
        if self.prefetch is not None and self.prefetch < 0:
            raise ConfigError(f"prefetch is {self.prefetch}; it must be 0 or more")

    def keywords(self) -> WorkerKeywords:
        """The settings except `queues` and `concurrency`, as keyword arguments of `Worker`."""
        names = WorkerKeywords.__annotations__
        return cast("WorkerKeywords", {name: getattr(self, name) for name in names})


class WorkerKeywords(TypedDict, total=False):
    """The fields of `WorkerSettings` except `queues` and `concurrency`, as keyword arguments."""

    executor: str | None
    prefetch: int | None
    lease: timedelta | None
    consumer_priority: int
    max_tasks_per_child: int | None
    max_memory_per_child: int | None
    burst: bool
    grace: timedelta
    cancel_grace: timedelta
    poll: timedelta | None
    processes: int
