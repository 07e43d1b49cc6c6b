"""The clock by which this host decides whether a lease still lasts."""

from __future__ import annotations

import time

#: Monotonic; on Linux it also runs while the host sleeps.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds on that clock; comparable only on the same host."""
    return time.clock_gettime(CLOCK)
