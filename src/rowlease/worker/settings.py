"""The settings of a worker, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, cast

from rowlease.errors import ConfigError

#: The limits of a lease that a worker sets.
SHORTEST_LEASE, LONGEST_LEASE = timedelta(milliseconds=100), timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker.

    Attributes:
        queues: where to take requests from. A list: most important first, and one gets something
            only when those before it are empty. A dict of weights (1 to 1000): each gets its share
            of the claims while all of them have requests. None takes the queues that the tasks
            name, and "default" where a task names none, with equal weights.
        concurrency: slots; None takes the cores this process may use, 32 for threads, or 100 for
            coroutines.
        executor: "process" runs each slot's tasks in a child process; what crashes one harms no
            other. "thread" and "coroutine" run all in this process, for tasks that wait for other
            machines: plain functions in threads, which nothing can kill (past its time limit one
            is left behind, and its soft time limit only sets `current().should_stop`), and
            coroutines in one event loop. None takes "coroutine" if every task is an `async def`.
        prefetch: how many short requests to hold ahead for each slot, at most (500; 30 in this
            process). How many they are follows from how long tasks take: a slot holds 200 ms of
            work at most, and nothing ahead while tasks take over 100 ms.
        lease: how long leases last before they must be renewed (0.1 s to 1 day); None takes the
            queue's. A dead worker's requests are free again after that time.
        consumer_priority: where it is lower than another worker's, that one gets requests first.
        burst: stop when the queues are empty and nothing runs; requests scheduled for later do
            not count.
        grace: how long running tasks may go on after the first `stop` (30 s).
        poll: how long an idle worker sleeps at most without a notification.
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
        """All but the first two, as `Worker` takes them."""
        names = WorkerKeywords.__annotations__
        return cast("WorkerKeywords", {name: getattr(self, name) for name in names})


class WorkerKeywords(TypedDict, total=False):
    """`WorkerSettings` as keyword arguments, but for the first two."""

    executor: str | None
    prefetch: int | None
    lease: timedelta | None
    consumer_priority: int
    burst: bool
    grace: timedelta
    poll: timedelta | None
    processes: int
