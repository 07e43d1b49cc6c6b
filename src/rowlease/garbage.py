"""How often Python searches for cycles of garbage in a worker and its child processes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: The number of objects made and not yet freed before the next search. A claim of 1,000 requests
#: makes several times as many objects as Python's default of 700, and all of them are alive. With
#: the default, the searches take a third of a worker's processor time.
THRESHOLD = 10_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Search less often in this block. Restores the thresholds that the program had before."""
    before = gc.get_threshold()
    search_less()
    try:
        yield
    finally:
        gc.set_threshold(*before)


def search_less() -> None:
    """Search less often from now on, unless the program has turned the searches off."""
    first, *others = gc.get_threshold()
    if first:
        gc.set_threshold(max(first, THRESHOLD), *others)
