"""Promotes a load whose rows are written; calls are repeated if no answer comes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from rowlease.errors import LoadDiffers, StoreConflict, StoreUnavailable
from rowlease.model import Promoted
from rowlease.store import Producing

logger = logging.getLogger("rowlease")

#: How often a promotion is tried at most, if rows are written meanwhile.
PROMOTIONS = 3
#: Seconds between tries of a call without an answer.
PAUSES = (0.5, 2.0)

T = TypeVar("T")


class Staged(NamedTuple):
    """A load that is staged and not promoted.

    Attributes:
        num_clamped: rows whose priority was lowered to the queue's maximum.
        kind: for rows without a kind.
        parts: those that count; others are of tries that Spark gave up. None: all of them.
    """

    load_id: str
    run_number: int
    num_rows: int
    num_clamped: int
    kind: str | None
    parts: Sequence[int] | None = None


def promoted(store: Producing, load: Staged) -> Promoted:
    """Promote a staged load; repeated if no answer comes."""
    try:
        done = _settled(store, load)
    except LoadDiffers:
        # There may be rows that do not count, of a task that was tried twice. To drop them every
        # time would cost more than it saves.
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


def _settled(store: Producing, load: Staged) -> Promoted:
    """Promote; repeated at once if a late task has committed rows meanwhile."""

    def promote() -> Promoted:
        return store.promote(
            load.load_id,
            load.run_number,
            load.num_rows,
            kind=load.kind,
            num_clamped=load.num_clamped,
        )

    for _ in range(PROMOTIONS - 1):
        with suppress(StoreConflict):
            return heard(promote)
    return heard(promote)


def _discarded(store: Producing, load: Staged, parts: Sequence[int]) -> bool:
    """Drop the rows that do not count; were there any, perhaps?"""
    with suppress(StoreUnavailable):
        return store.discard_staged(load.load_id, load.run_number, parts) > 0
    heard(lambda: store.discard_staged(load.load_id, load.run_number, parts))
    return True  # the count of the first call was lost


def heard(call: Callable[[], T]) -> T:
    """The answer of an idempotent call, which is repeated if no answer comes."""
    for pause in PAUSES:
        with suppress(StoreUnavailable):
            return call()
        time.sleep(pause)
    return call()
