"""Writes the rows of each Spark task as a part of a load; promotes the parts that count."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from rowlease.errors import ConfigError, InvalidRequest, RowleaseError
from rowlease.spark.load import MAX_INTEGER, Staged, promoted
from rowlease.store.bulk import bulk_store, copy_staged

#: A row's id is its partition, then which try of it, then its number: 17, 16 and 30 bits. Rows so
#: become requests in the frame's order, and two tries never share an id.
TRY_BITS, ROW_BITS = 16, 30
MAX_PARTITIONS = 1 << 63 - TRY_BITS - ROW_BITS
APPLICATION = "rowlease spark"


@dataclass
class Part(WriterCommitMessage):
    """What a task reports: which part it wrote, and how many rows."""

    part: int
    num_rows: int


class ArrowParts(DataSourceArrowWriter):
    """One write of a frame. It is made on the driver and travels to each task.

    A task that is tried again writes another part; so nothing depends on whether it computes the
    same rows twice, and one that comes late, after the promotion, changes nothing.
    """

    def __init__(
        self, dsn: str, load_id: str, queue: str, kind: str | None, columns: Sequence[str]
    ) -> None:
        self._dsn = dsn
        self._load_id = load_id
        self._queue = queue
        self._kind = kind
        self._columns = list(columns)
        # Task attempts are numbered from 0 in every application; two that write the same load
        # must not call different tries the same.
        self._run = time.time_ns() // 1000 % (1 << TRY_BITS)
        bulk_store(dsn, APPLICATION).close()

    def write(self, iterator: Iterator[Any]) -> Part:
        """Copy a partition's rows in one transaction; runs in a task."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise ConfigError("a part is written by a Spark task")
        if task.partitionId() >= MAX_PARTITIONS:
            raise ConfigError(f"a load has at most {MAX_PARTITIONS} partitions; coalesce the frame")
        attempt = (task.taskAttemptId() + self._run) % (1 << TRY_BITS)
        part = Part((task.partitionId() << TRY_BITS) + attempt, 0)
        try:
            with closing(bulk_store(self._dsn, APPLICATION)) as store:
                columns = ["load_id", "row_id", *self._columns]
                copy_staged(store, columns, self._blocks(iterator, part))
        except RowleaseError as error:
            without_rows(error)
        return part

    def _blocks(self, batches: Iterator[Any], part: Part) -> Iterator[bytes]:
        """The rows as PostgreSQL's CSV: null is nothing, and an empty text is quoted."""
        import pyarrow as pa
        from pyarrow import csv

        how = csv.WriteOptions(include_header=False, quoting_style="needed")
        for batch in batches:
            rows = batch.num_rows
            first = (part.part << ROW_BITS) + part.num_rows
            part.num_rows += rows
            if part.num_rows >> ROW_BITS:
                raise InvalidRequest(
                    f"a partition has over {1 << ROW_BITS} rows; repartition the frame"
                )
            columns = [
                pa.repeat(self._load_id, rows),
                pa.array(range(first, first + rows), pa.int64()),
                *(as_staged(name, batch.column(name)) for name in self._columns),
            ]
            names = ["load_id", "row_id", *self._columns]
            block = pa.BufferOutputStream()
            csv.write_csv(pa.RecordBatch.from_arrays(columns, names), block, how)
            yield block.getvalue().to_pybytes()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Promote what the winning tasks wrote; runs beside the driver, once all have ended."""
        parts = [message for message in messages if isinstance(message, Part)]
        staged = Staged(self._load_id, sum(part.num_rows for part in parts), self._kind)
        try:
            with closing(bulk_store(self._dsn, APPLICATION)) as store:
                try:
                    promoted(store, self._queue, staged)
                except InvalidRequest:
                    # Rows that do not count may be there, of a task that was tried twice or of a
                    # run that died. To look for them each time would cost more than it saves.
                    if not store.discard_staged(self._load_id, [part.part for part in parts]):
                        raise
                    promoted(store, self._queue, staged)
        except RowleaseError as error:
            without_rows(error)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        with closing(bulk_store(self._dsn, APPLICATION)) as store:
            store.discard_staged(self._load_id, [])


def as_staged(name: str, column: Any) -> Any:
    """A column as the table `staging` takes it."""
    import pyarrow as pa
    from pyarrow import compute

    if name == "priority":
        high = compute.min_element_wise(column, MAX_INTEGER, skip_nulls=False)
        return compute.max_element_wise(high, -MAX_INTEGER, skip_nulls=False).cast(pa.int32())
    if name == "due_time":
        return column.cast(pa.timestamp("us", "UTC"))
    return column


def without_rows(error: RowleaseError) -> NoReturn:
    """Raise it without its cause: Spark logs the whole chain, and a driver's error quotes rows."""
    raise type(error)(str(error)) from None
