"""What a running task can ask about its own attempt."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Protocol

from rowlease.errors import RowleaseError

#: Leases are judged by a clock that also runs while the host sleeps.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Line(Protocol):
    """What an executor knows of the request that is the n-th on it."""

    def is_asked_to_stop(self, number: int) -> bool: ...

    def lease_ends(self, number: int) -> float | None: ...

    def tell(self, number: int, fraction: float, note: str) -> None: ...


class Context:
    """One attempt at a request, as the task that runs it sees it; `current` gives it.

    Attributes:
        request_id: the request's.
        attempt: 1 for the first.
        max_attempts: when this many have failed, the request becomes a dead letter.
    """

    __slots__ = ("_ends", "_line", "_number", "attempt", "max_attempts", "request_id")

    def __init__(
        self,
        request_id: int,
        attempt: int,
        max_attempts: int,
        number: int,
        ends: float,
        line: Line,
    ) -> None:
        self.request_id = request_id
        self.attempt = attempt
        self.max_attempts = max_attempts
        self._number = number
        self._ends = ends
        self._line = line

    @property
    def should_stop(self) -> bool:
        """Is it time to give up? A long task looks now and then, and raises or returns.

        The request was cancelled, its lease is lost (then the outcome will not count), or the
        worker is draining.
        """
        return self._line.is_asked_to_stop(self._number)

    @property
    def lease_seconds_left(self) -> float:
        """Seconds until the lease ends; the worker prolongs it meanwhile, past a third of it."""
        ends = self._line.lease_ends(self._number)
        return (self._ends if ends is None else ends) - time.clock_gettime(CLOCK)

    def progress(self, fraction: float, note: str = "") -> None:
        """Say how far this attempt is, for people who look at the table `progress`.

        It costs about a microsecond: the worker takes up what was said last, about once a second.
        So an attempt of less than a second may never be seen.

        Args:
            fraction: 0 to 1; what lies beyond is cut.
            note: a few words; at most 400 bytes are kept.
        """
        self._line.tell(self._number, min(1.0, max(0.0, fraction)), note)


running: ContextVar[Context] = ContextVar("rowlease.running")


def current() -> Context:
    """The attempt that this code runs in.

    Raises:
        RowleaseError: it is not run by a worker.
    """
    try:
        return running.get()
    except LookupError:
        raise RowleaseError("no request is being run here: a worker calls the task") from None
