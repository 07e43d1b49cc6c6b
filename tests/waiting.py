"""Waits for what other threads, processes and servers do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: Seconds between two looks. Without a pause, a look would take a core from what it waits for.
PAUSE = 0.01


def until(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """Look until the answer is true, and return it."""
    give_up = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(PAUSE)
    return answer
