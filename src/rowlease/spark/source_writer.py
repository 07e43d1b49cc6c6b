"""Writes the rows of each Spark task as a part of a load, and promotes the accepted parts.

Each attempt of a task writes a part of its own; Spark accepts one attempt of each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rowlease.errors import ConfigError, LoadLost
from rowlease.model import Begun, Promoted, StreamBatch
from rowlease.spark.arrow_csv import lane_block
from rowlease.spark.load import TRY_BITS, new_run
from rowlease.spark.load_progress import Reporter
from rowlease.spark.promotion import Staged, end_run, heard, promoted
from rowlease.spark.source_errors import one_sentence
from rowlease.store import BulkStore, engine_of
from rowlease.store.bulk import LANE, NULLABLE

#: The local property in which Spark sets the number of a micro-batch.
BATCH_ID_PROPERTY = "streaming.sql.batchId"
#: The local property with the id of the streaming query, which is kept in its checkpoint.
QUERY = "sql.streaming.queryId"


@dataclass
class Part(WriterCommitMessage):
    """The report of a task to the driver.

    Attributes:
        run_number: the number of the run; None if the load was already promoted, so that nothing
            was written.
        part: the number of the part.
        num_rows: the number of rows in the part.
        num_clamped: the number of rows whose priority was clamped.
    """

    run_number: int | None = None
    part: int = 0
    num_rows: int = 0
    num_clamped: int = 0


class Parts:
    """Stages the rows of a frame. The driver creates this object; Spark pickles it for each task.

    Each try of a task writes a part of its own, and only one try's part counts. So it does no harm
    if a retry computes other rows. Rows that are written after the promotion never become requests.
    """

    def __init__(self, dsn: str, queue: str, kind: str | None, columns: Sequence[str]) -> None:
        self._dsn = dsn
        self._queue = queue
        self._kind = kind
        self._columns = list(columns)

    def begin(
        self,
        load_id: str,
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
            begun = heard(
                lambda: store.begin_load(load_id, self._queue, run_by, described, batch=batch)
            )
            return None if isinstance(begun, Promoted) else begun

    def stage(self, load_id: str, run: Begun, task: Any, batches: Iterator[Any]) -> Part:
        """Write a partition's rows in one transaction. Runs in a Spark task."""
        attempt = task.taskAttemptId() % (1 << TRY_BITS)
        part = Part(run.run_number, (task.partitionId() << TRY_BITS) + attempt)
        more = [name for name in NULLABLE if name in self._columns]
        with self.store() as store:
            reporter = Reporter(store, load_id, run.run_number)
            try:
                store.copy_rows([*LANE, *more], self._blocks(run, batches, part, reporter))
            except LoadLost:
                # Raises a LoadLost that names the run which has the load now.
                store.report_load(load_id, run.run_number, 0)
                raise
            reporter.report()
        return part

    def _blocks(
        self, run: Begun, batches: Iterator[Any], part: Part, reporter: Reporter
    ) -> Iterator[bytes]:
        """The rows as CSV."""
        for batch in batches:
            block, clamped = lane_block(batch, run, part.part, self._kind, not part.num_rows)
            part.num_rows += batch.num_rows
            part.num_clamped += clamped
            yield block
            reporter.add(batch.num_rows)

    def promote(
        self, load_id: str, run_number: int, messages: Sequence[WriterCommitMessage | None]
    ) -> None:
        """Promote the parts of the accepted attempts. Runs in a process on the driver's host.

        Args:
            messages: the reports of the attempts that Spark has accepted. All tasks have ended.
        """
        parts = [message for message in messages if isinstance(message, Part)]
        load = Staged(
            load_id,
            run_number,
            sum(part.num_rows for part in parts),
            sum(part.num_clamped for part in parts),
            [part.part for part in parts],
        )
        with self.store() as store:
            promoted(store, load)

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


class ArrowParts(DataSourceArrowWriter):
    """Writes a frame as one load.

    Args:
        described: the columns and types of the frame, which the load stores.
        batch: the batch of a stream that the frame is.

    Raises:
        RowleaseError: the load cannot begin; see `Parts.begin`.
    """

    def __init__(
        self, parts: Parts, load_id: str, described: str, batch: StreamBatch | None = None
    ) -> None:
        self._parts = parts
        self._load_id = load_id
        self._run = parts.begin(load_id, new_run(), described, batch)

    def write(self, iterator: Iterator[Any]) -> Part:
        """See `Parts.stage`. If the load was already promoted, no row is computed."""
        if self._run is None:
            return Part()
        with one_sentence():
            return self._parts.stage(self._load_id, self._run, this_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._run is None:
            return
        with one_sentence():
            self._parts.promote(self._load_id, self._run.run_number, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._run is not None:
            self._parts.discard(self._load_id, self._run.run_number)


class StreamParts(DataSourceStreamArrowWriter):
    """Writes a stream. Each of its batches is a load, `<stream>/<number of the batch>`.

    Spark makes no call at the beginning of a batch, so each task begins the load. The first task
    takes the load over for this run of the stream, and gets a run number; the other tasks get the
    same run number. Spark calls `commit` on another copy of this object, which reads the run number
    from the tasks' reports.
    """

    def __init__(self, parts: Parts, stream: str) -> None:
        self._parts = parts
        self._stream = stream
        self._run_by = new_run()
        with parts.store() as store:
            store.check_schema()

    def write(self, iterator: Iterator[Any]) -> Part:
        """See `Parts.stage`. If the batch was already promoted, no row is computed."""
        with one_sentence():
            task = this_task()
            number = task.getLocalProperty(BATCH_ID_PROPERTY)
            if number is None:
                raise ConfigError(
                    f"Spark has not set {BATCH_ID_PROPERTY}, the number of the batch;"
                    " use batch_sink"
                )
            batch = StreamBatch(self._stream, task.getLocalProperty(QUERY), int(number))
            run = self._parts.begin(batch.load_id, self._run_by, batch=batch)
            if run is None:
                return Part()
            return self._parts.stage(batch.load_id, run, task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        batch = StreamBatch(self._stream, None, batchId)  # Spark does not name the query here
        with one_sentence():
            for run_number in run_numbers(messages):
                self._parts.promote(batch.load_id, run_number, messages)
            if not messages:  # a batch without tasks is an empty load
                run = self._parts.begin(batch.load_id, self._run_by, batch=batch)
                if run is not None:
                    self._parts.promote(batch.load_id, run.run_number, [])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """End the run of the batch that the tasks' reports name.

        Without a report, nothing is ended: to begin the load here would take it from another driver
        of the stream. Spark replays the batch, and the next run drops the rows of this one.
        """
        batch = StreamBatch(self._stream, None, batchId)
        for run_number in run_numbers(messages):
            self._parts.discard(batch.load_id, run_number)


def run_numbers(messages: Sequence[WriterCommitMessage | None]) -> set[int]:
    """The runs that have staged parts: one, or none."""
    found = (message.run_number for message in messages if isinstance(message, Part))
    return {number for number in found if number is not None}


def this_task() -> Any:
    """The current Spark task."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise ConfigError("only a Spark task can write a part")
    return task
