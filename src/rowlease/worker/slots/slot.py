"""What the dispatcher needs of slots. Child processes and the event loop implement it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from rowlease.worker.attempt import Ending
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended


class Death(NamedTuple):
    """The end of a slot that died or was killed.

    Attributes:
        how: a phrase that describes how the slot ended.
        running: the request that the slot was running and its run time in seconds, or None.
        others: the other requests of the slot, in order.
    """

    how: str
    running: tuple[Lease, float] | None
    others: list[Lease]


class Runner(Protocol):
    """Holds requests and runs them: a child process has one slot, the event loop has many.

    Attributes:
        load: the number of requests held, without those taken back.
        num_slots: the number of slots that can run requests now.
        num_blocked: how many of them have been running one request for a long time.
        num_idle: how many of them would run another request at once.
        num_left: how many more requests it may be given.
        take_back_at: when to call `finish_take_back`; None if `start_take_back` was not called.
    """

    num_blocked: int
    take_back_at: float | None

    @property
    def load(self) -> int: ...
    @property
    def num_slots(self) -> int: ...
    @property
    def num_idle(self) -> int: ...
    @property
    def num_busy(self) -> int: ...
    @property
    def num_left(self) -> float: ...

    def give(self, leases: Sequence[Lease]) -> None:
        """Run these requests, in this order."""

    def next_up(self) -> Iterable[Lease]:
        """The requests that run, or that run next."""

    def running(self) -> Iterable[tuple[Lease, float]]:
        """The requests that are running, and when each began, by `clock.now`."""

    def start_take_back(self, at: float) -> None: ...
    def finish_take_back(self) -> list[Lease]: ...

    def cancels(self, lease: Lease) -> bool:
        """Whether `end` lets the task clean up, as a coroutine that is cancelled at an await."""

    def end(self, lease: Lease, why: str) -> None:
        """Kill the task of a request that is running; `why` continues "the process …"."""

    def give_up(self) -> tuple[list[Lease], list[Lease]]:
        """Kill what is running. Return the requests that ran, and the others, in order."""


class Slots(Protocol):
    """The slots of a worker.

    Attributes:
        runners: the child processes, ready or not; or the event loop.
        num_deaths: the number of slots that have died.
        unit: the word for one slot in messages.
    """

    num_deaths: int
    unit: str

    @property
    def runners(self) -> Sequence[Runner]: ...

    def poll(self, pause: float) -> tuple[list[Ended[Ending]], list[Death]]: ...
    def wake(self) -> None: ...
