"""The settings of a worker and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, cast

from rowlease.errors import ConfigError

#: The limits of the setting `lease`.
SHORTEST_LEASE, LONGEST_LEASE = timedelta(milliseconds=100), timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker.

    Attributes:
        queues: the queues to claim from. In a list the most important comes first: a queue is
            served only when those before it are empty. In a dict of weights (1 to 1000) each queue
            gets its share of the claims while all of them have requests. None takes the queues of
            the tasks ("default" for a task without one), with equal weights.
        concurrency: how many slots. None takes one for each usable core, 32 for threads, or 100
            for coroutines.
        executor: "process" runs the tasks of each slot in a child process, so that a crash harms no
            other task. "thread" and "coroutine" run all tasks in this process, for tasks that
            wait for other machines: plain functions in threads and coroutines in one event loop.
            A thread cannot be killed: a task past its time limit fails, but its thread runs on,
            and a soft time limit only sets `current().should_stop`. None takes the executor that
            the tasks name, else "coroutine" if every task is an `async def`, else "process".
        prefetch: the most short requests to prefetch for each slot. None takes 500 for processes,
            else 30. The run time of tasks limits it further: a slot holds at most 200 ms of work,
            and prefetches nothing while tasks take over 100 ms.
        lease: how long leases last before they must be renewed (0.1 s to 1 day). None takes the
            setting of each queue. The requests of a dead worker are free again after that time.
        consumer_priority: workers with a larger one get requests first.
        burst: stop when the queues are empty and nothing runs; requests that are not due yet do
            not count.
        grace: how long running tasks may go on after the first `stop` (30 s).
        poll: the longest sleep of an idle worker without a notification. None takes 5 s, or 1 s if
            the database sends no notifications.
        processes: how many workers like this one share the host's cores (1 or more).

    Raises:
        ConfigError: one of them is wrong.
    """

    queues: Sequence[str] | Mapping[str, int] | None = None
    concurrency: int | None = None
    executor: str | None = None
    prefetch: int | None = None
    lease: timedelta | None = None
    consumer_priority: int = 0
    burst: bool = False
    grace: timedelta = timedelta(seconds=30)
    poll: timedelta | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        if self.lease is not None and not SHORTEST_LEASE <= self.lease <= LONGEST_LEASE:
            raise ConfigError(f"lease is {self.lease}; it must be 100 ms to 1 day")
        if self.processes < 1:
            raise ConfigError(f"processes is {self.processes}; it must be 1 or more")
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigError(f"concurrency is {self.concurrency}; it must be 1 or more")
        if self.prefetch is not None and self.prefetch < 0:
            raise ConfigError(f"prefetch is {self.prefetch}; it must be 0 or more")

    def keywords(self) -> WorkerKeywords:
        """The settings but `queues` and `concurrency`, as keyword arguments of `Worker`."""
        names = WorkerKeywords.__annotations__
        return cast("WorkerKeywords", {name: getattr(self, name) for name in names})


class WorkerKeywords(TypedDict, total=False):
    """The fields of `WorkerSettings` but `queues` and `concurrency`, as keyword arguments."""

    executor: str | None
    prefetch: int | None
    lease: timedelta | None
    consumer_priority: int
    burst: bool
    grace: timedelta
    poll: timedelta | None
    processes: int
