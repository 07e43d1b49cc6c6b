"""The writers of `format("rowlease")`: a frame is one load, and so is each batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from rowlease.errors import ConfigError
from rowlease.model import StreamBatch
from rowlease.spark.load import new_run
from rowlease.spark.parts import Parts, TaskAttempt, this_task
from rowlease.spark.source_errors import one_sentence

#: The local property in which Spark sets the number of a micro-batch.
BATCH_ID_PROPERTY = "streaming.sql.batchId"
#: The local property with the id of the streaming query, which is kept in its checkpoint.
QUERY = "sql.streaming.queryId"


@dataclass
class TaskReport(WriterCommitMessage):
    """The report of a task to the driver.

    Attributes:
        attempt: what the task has written; None if the load was already promoted.
    """

    attempt: TaskAttempt | None = None


class ArrowParts(DataSourceArrowWriter):
    """Writes a frame as one load.

    Args:
        described: the columns and types of the frame, which the load stores.
        batch: the batch of a stream that the frame is.

    Raises:
        RowleaseError: the load cannot begin; see `Parts.begin`.
    """

    def __init__(
        self,
        parts: Parts,
        queue: str,
        load_id: str,
        described: str,
        batch: StreamBatch | None = None,
    ) -> None:
        self._parts = parts
        self._load_id = load_id
        self._run = parts.begin(load_id, queue, new_run(), described, batch)

    def write(self, iterator: Iterator[Any]) -> TaskReport:
        """See `Parts.stage`. If the load was already promoted, no row is computed."""
        if self._run is None:
            return TaskReport()
        with one_sentence():
            return TaskReport(self._parts.stage(self._load_id, self._run, this_task(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._run is None:
            return
        with one_sentence():
            self._parts.promote(self._load_id, self._run.run_number, attempts(messages))

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

    def __init__(self, parts: Parts, queue: str, stream: str) -> None:
        self._parts = parts
        self._queue = queue
        self._stream = stream
        self._run_by = new_run()
        with parts.store() as store:
            store.check_schema()

    def write(self, iterator: Iterator[Any]) -> TaskReport:
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
            run = self._parts.begin(batch.load_id, self._queue, self._run_by, batch=batch)
            if run is None:
                return TaskReport()
            return TaskReport(self._parts.stage(batch.load_id, run, task, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        batch = StreamBatch(self._stream, None, batchId)  # Spark does not name the query here
        with one_sentence():
            for run_number in run_numbers(messages):
                self._parts.promote(batch.load_id, run_number, attempts(messages))
            if not messages:  # a batch without tasks is an empty load
                run = self._parts.begin(batch.load_id, self._queue, self._run_by, batch=batch)
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


def attempts(messages: Sequence[WriterCommitMessage | None]) -> list[TaskAttempt]:
    """What the attempts that Spark has accepted have written."""
    found = (message.attempt for message in messages if isinstance(message, TaskReport))
    return [attempt for attempt in found if attempt]


def run_numbers(messages: Sequence[WriterCommitMessage | None]) -> set[int]:
    """The runs that have staged parts: one, or none."""
    return {attempt.run_number for attempt in attempts(messages)}
