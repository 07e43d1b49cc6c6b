"""The parts of a load: each attempt of a Spark task writes its rows by COPY, as parts of its own.

Spark accepts one attempt of each task, and only that attempt's parts are promoted. So it does no
harm if a retried task computes other rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rowlease.errors import ConfigError, LoadLost
from rowlease.model import Begun, Promoted, StreamBatch
from rowlease.spark.arrow_csv import lane_block
from rowlease.spark.load_progress import Reporter
from rowlease.spark.promotion import Staged, end_run, heard, promoted
from rowlease.store import BulkStore, engine_of
from rowlease.store.bulk import LANE, NULLABLE

#: A part's number is that of the partition, then that of the task's attempt, then that of the part
#: among the parts of the attempt. So the parts have the order of the frame.
ATTEMPT_BITS = 16
PART_BITS = 16
#: The time, in seconds, after which a task commits what it has written and begins the next part. A
#: long transaction would keep vacuum from its work in the whole database.
PART_SECONDS = 0.5


@dataclass
class TaskAttempt:
    """What an attempt of a task has written.

    Attributes:
        run_number: the number of the run.
        parts: the numbers of the parts.
        num_rows: the number of rows in the parts.
        num_clamped: the number of rows whose priority was clamped.
    """

    run_number: int
    parts: list[int]
    num_rows: int = 0
    num_clamped: int = 0


class Parts:
    """Writes the rows of a frame. The driver makes this object; Spark pickles it for each task."""

    def __init__(self, dsn: str, kind: str | None, columns: Sequence[str]) -> None:
        self._dsn = dsn
        self._kind = kind
        self._columns = list(columns)

    def begin(
        self,
        load_id: str,
        queue: str,
        run_by: str,
        described: str | None = None,
        batch: StreamBatch | None = None,
    ) -> Begun | None:
        """Begin a load, or take it over from an earlier run.

        Args:
            run_by: the name of this run. Another call with the same name gets the same run number.
            described: the columns and types of the rows.
            batch: the batch of a stream that the load is.

        Returns:
            The run; None if the load was already promoted.

        Raises:
            InvalidRequest: the load belongs to another queue, was promoted from other columns, or
                its stream belongs to another streaming query.
            LoadLost: a later run has taken the load over from this one.
        """
        with self.store() as store:
            begun = heard(lambda: store.begin_load(load_id, queue, run_by, described, batch=batch))
            return None if isinstance(begun, Promoted) else begun

    def stage(self, load_id: str, run: Begun, task: Any, batches: Iterator[Any]) -> TaskAttempt:
        """Write the rows of a partition. Runs in a Spark task.

        Raises:
            LoadLost: another run has taken the load over.
            InvalidRequest, StoreError: a row cannot be accepted, or the database cannot be reached.
        """
        attempt = task.taskAttemptId() % (1 << ATTEMPT_BITS)
        first = ((task.partitionId() << ATTEMPT_BITS) + attempt) << PART_BITS
        written = TaskAttempt(run.run_number, [])
        more = [name for name in NULLABLE if name in self._columns]
        with self.store() as store:
            reporter = Reporter(store, load_id, run.run_number)
            try:
                for batch in batches:  # the first batch of a part; `_blocks` takes the others
                    written.parts.append(first + len(written.parts))
                    blocks = self._blocks(run, chain([batch], batches), written, reporter)
                    store.copy_rows([*LANE, *more], blocks)
            except LoadLost:
                # Raises a LoadLost that names the run which has the load now.
                store.report_load(load_id, run.run_number, 0)
                raise
            reporter.report()
        return written

    def _blocks(
        self, run: Begun, batches: Iterator[Any], written: TaskAttempt, reporter: Reporter
    ) -> Iterator[bytes]:
        """The rows of a part, as CSV."""
        part, ends_part, ends_at = written.parts[-1], True, time.monotonic() + PART_SECONDS
        for batch in batches:
            block, clamped = lane_block(batch, run, part, self._kind, ends_part)
            written.num_rows += batch.num_rows
            written.num_clamped += clamped
            ends_part = ends_part and not batch.num_rows
            yield block
            reporter.add(batch.num_rows)
            if time.monotonic() >= ends_at and len(written.parts) < 1 << PART_BITS:
                return

    def promote(self, load_id: str, run_number: int, attempts: Sequence[TaskAttempt]) -> Promoted:
        """Promote the parts of the accepted attempts. All tasks have ended."""
        with self.store() as store:
            return promoted(store, staged(load_id, run_number, attempts))

    def discard(self, load_id: str, run_number: int) -> None:
        """End the run, unless another run has taken the load over.

        Spark ends the input of a task that it has killed as it ends that of any other, so such a
        task commits what it has read. After this call, its commit is refused.
        """
        with self.store() as store:
            end_run(store, load_id, run_number)

    def store(self) -> closing[BulkStore]:
        """A store on the load's database, as a context manager."""
        return closing(engine_of(self._dsn).bulk_store("rowlease spark"))


def staged(load_id: str, run_number: int, attempts: Sequence[TaskAttempt]) -> Staged:
    """The load that these attempts have written."""
    return Staged(
        load_id,
        run_number,
        sum(one.num_rows for one in attempts),
        sum(one.num_clamped for one in attempts),
        [part for one in attempts for part in one.parts],
    )


def this_task() -> Any:
    """The current Spark task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise ConfigError("only a Spark task can write a part")
    return task
