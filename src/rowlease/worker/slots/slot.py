"""The interface of slots. Child processes and coroutines implement it for the dispatcher."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from rowlease.worker.attempt import Ending
from rowlease.worker.claims.leases import Lease


class Slot(Protocol):
    """Runs the requests that the dispatcher gives it, one by one.

    Attributes:
        held: the unanswered requests, in order. None stands for a request that was taken back.
        load: the number of requests held, without those taken back.
        is_open: whether the slot may be given more requests.
        ready: whether the slot can run tasks.
        end_reason: why the running task is about to be ended, or None.
        is_blocked: whether the slot has been running one request for a long time.
        take_back_at: when to call `finish_take_back`; None if `start_take_back` was not called.
    """

    held: deque[Any]
    ready: bool
    end_reason: str | None
    is_blocked: bool
    take_back_at: float | None

    @property
    def load(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    def give(self, leases: Sequence[Lease]) -> None: ...
    def running(self) -> tuple[Lease, float] | None: ...
    def start_take_back(self, at: float) -> None: ...
    def finish_take_back(self) -> list[Lease]: ...
    def kill(self) -> None: ...
    def take_unfinished(self) -> tuple[tuple[Lease, float] | None, list[Lease]]: ...


class Answer(NamedTuple):
    """How a request ended in its slot, and its run time in seconds."""

    slot: Slot
    lease: Lease
    ending: Ending
    seconds: float


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


class Slots(Protocol):
    """The slots of a worker.

    Attributes:
        children: the slots, ready or not.
        num_deaths: the number of slots that have died.
        unit: the word for one slot in messages.
    """

    num_deaths: int
    unit: str

    @property
    def children(self) -> Sequence[Slot]: ...
    def poll(self, pause: float) -> tuple[list[Answer], list[Death]]: ...
    def wake(self) -> None: ...
