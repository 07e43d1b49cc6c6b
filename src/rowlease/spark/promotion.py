"""Promotes a load when all its rows are written. A call without an answer is repeated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, TypeVar

from rowlease.backoff import Backoff
from rowlease.errors import LoadLost, StoreConflict, StoreUnavailable
from rowlease.model import Begun, Promoted
from rowlease.store import Store

logger = logging.getLogger("rowlease")

#: The number of times that a call is repeated if it was not answered, or met another transaction.
MAX_CALLS_AGAIN = 2

T = TypeVar("T")


#: What the message of an error of a task begins with.
NOT_STAGED = "the rows could not be staged, nothing was enqueued"


class Load(NamedTuple):
    """A load whose rows are to be written.

    Attributes:
        kind: the kind of rows that have none.
    """

    dsn: str
    load_id: str
    run: Begun
    kind: str | None


class Staged(NamedTuple):
    """A load whose rows are all staged, but not promoted yet.

    Attributes:
        num_rows: the number of rows in the parts that count.
        num_clamped: the number of rows whose priority was lowered to the queue's maximum.
        parts: the parts that count. Attempts of Spark tasks that Spark does not count wrote the
            other parts. None means that all parts count.
    """

    load_id: str
    run_number: int
    num_rows: int
    num_clamped: int
    parts: Sequence[int] | None = None


def promoted(store: Store, load: Staged) -> Promoted:
    """Promote a staged load.

    Raises:
        LoadDiffers: the number of staged rows is not `num_rows`.
        LoadLost: another run has taken the load over.
    """
    done = heard(
        lambda: store.promote(
            load.load_id,
            load.run_number,
            load.num_rows,
            parts=load.parts,
            num_clamped=load.num_clamped,
        )
    )
    logger.info(
        "load %s: %s rows enqueued, %s duplicates left out, %s priorities clamped",
        load.load_id,
        done.num_enqueued,
        done.num_duplicates,
        done.num_clamped,
    )
    return done


def end_run(store: Store, load_id: str, run_number: int) -> None:
    """End the run of a load that has failed, unless another run has taken the load over."""
    with suppress(LoadLost):
        heard(lambda: store.end_run(load_id, run_number))


def heard(call: Callable[[], T]) -> T:
    """Make an idempotent call, and repeat it if it had no answer or met another transaction."""
    for pause in islice(Backoff(1.0, 2.0), MAX_CALLS_AGAIN):
        with suppress(StoreUnavailable, StoreConflict):
            return call()
        time.sleep(pause)
    return call()
