"""The clock with which this host decides whether a lease is still valid."""

from __future__ import annotations

import time

#: A monotonic clock. On Linux it also counts the time during which the host is suspended.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """The time of this clock, in seconds. Compare it only with times of the same host."""
    return time.clock_gettime(CLOCK)
