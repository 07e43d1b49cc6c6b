"""A slot as the dispatcher knows it, whatever runs in it: a child process or a coroutine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from rowlease.worker.attempt import Ending
from rowlease.worker.claims.leases import Lease


class Slot(Protocol):
    """Runs the requests it is given, one after the other.

    Attributes:
        held: given and unanswered, in order; None stands for what was taken back.
        load: how many are held, without what was taken back.
        is_open: may it be given more?
        ready: it can run tasks.
        end_reason: why what it runs is about to end, if it is.
        is_blocked: it has been busy with one request for long.
        take_back_at: when `finish_take_back` may be asked, after `start_take_back`.
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
    """How a request that a slot was given has ended, and how long it ran."""

    slot: Slot
    lease: Lease
    ending: Ending
    seconds: float


class Death(NamedTuple):
    """What a slot that was ended, or died, leaves behind.

    Attributes:
        how: it ended, as text.
        running: what it was at, and for how many seconds.
        others: what it had been given beyond that, in order.
    """

    how: str
    running: tuple[Lease, float] | None
    others: list[Lease]


class Slots(Protocol):
    """The slots of a worker.

    Attributes:
        children: the slots, ready or not.
        num_deaths: how many have died.
        unit: what one of them is.
    """

    num_deaths: int
    unit: str

    @property
    def children(self) -> Sequence[Slot]: ...
    def poll(self, pause: float) -> tuple[list[Answer], list[Death]]: ...
    def wake(self) -> None: ...
