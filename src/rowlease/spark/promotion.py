"""Promotes a load when all its rows are written. A call that is not answered is repeated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, TypeVar

from rowlease.backoff import Backoff
from rowlease.errors import LoadDiffers, LoadLost, StoreConflict, StoreUnavailable
from rowlease.model import Promoted
from rowlease.store import Store

logger = logging.getLogger("rowlease")

#: The maximum number of tries of a promotion if rows of the load are committed meanwhile.
MAX_PROMOTIONS = 3
#: The number of times that a call is repeated if it was not answered.
MAX_REPEATS_UNANSWERED = 2

T = TypeVar("T")


class Staged(NamedTuple):
    """A load whose rows are all staged, but not promoted yet.

    Attributes:
        num_rows: the number of rows in the parts that count.
        num_clamped: the number of rows whose priority was lowered to the queue's maximum.
        kind: the kind of rows that have none.
        parts: the parts that count. Attempts of Spark tasks that Spark does not count wrote the
            other parts. None means that all parts count.
    """

    load_id: str
    run_number: int
    num_rows: int
    num_clamped: int
    kind: str | None
    parts: Sequence[int] | None = None


def promoted(store: Store, load: Staged) -> Promoted:
    """Promote a staged load, and drop the rows that do not count if there are any.

    Raises:
        LoadDiffers: the number of staged rows is not `num_rows`.
        LoadLost: another run has taken the load over.
    """
    try:
        done = _settled(store, load)
    except LoadDiffers:
        # Perhaps a task was tried twice, and there are rows that do not count. Dropping such rows
        # before every promotion would cost more than this second promotion.
        if load.parts is None or not _discarded(store, load, load.parts):
            raise
        done = _settled(store, load)
    logger.info(
        "load %s: %s rows enqueued, %s duplicates left out, %s priorities clamped",
        load.load_id,
        done.num_enqueued,
        done.num_duplicates,
        done.num_clamped,
    )
    return done


def _settled(store: Store, load: Staged) -> Promoted:
    """Promote the load. Try again at once if a late task has committed rows meanwhile."""

    def promote() -> Promoted:
        return store.promote(
            load.load_id,
            load.run_number,
            load.num_rows,
            kind=load.kind,
            num_clamped=load.num_clamped,
        )

    for _ in range(MAX_PROMOTIONS - 1):
        with suppress(StoreConflict):
            return heard(promote)
    return heard(promote)


def _discarded(store: Store, load: Staged, parts: Sequence[int]) -> bool:
    """Drop the rows of all parts except `parts`. Return False if certainly none were dropped."""
    with suppress(StoreUnavailable):
        return store.discard_staged(load.load_id, load.run_number, parts) > 0
    heard(lambda: store.discard_staged(load.load_id, load.run_number, parts))
    return True  # the first call may have dropped rows, but its answer was lost


def end_run(store: Store, load_id: str, run_number: int) -> None:
    """End the run of a load that has failed, unless another run has taken the load over."""
    with suppress(LoadLost):
        heard(lambda: store.discard_staged(load_id, run_number, None))


def heard(call: Callable[[], T]) -> T:
    """Make an idempotent call, and repeat it if it is not answered. Return its answer."""
    for pause in islice(Backoff(1.0, 2.0), MAX_REPEATS_UNANSWERED):
        with suppress(StoreUnavailable):
            return call()
        time.sleep(pause)
    return call()
