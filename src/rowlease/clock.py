"""The clock by which leases are judged on this host."""

from __future__ import annotations

import time

#: Monotonic, and it also runs while the host sleeps, where there is such a clock.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds on that clock, which compare only with others of the same host."""
    return time.clock_gettime(CLOCK)
