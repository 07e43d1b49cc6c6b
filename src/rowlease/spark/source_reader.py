"""Reads requests in ranges of their ids. Each Spark task reads one range."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rowlease.spark.arrow_csv import from_csv
from rowlease.store import IdRange, Window, bulk_store

_COLUMNS = {
    "request_id": "bigint", "queue_name": "string", "kind": "string", "status": "string",
    "priority": "smallint", "requested_time": "timestamp", "due_time": "timestamp",
    "locked_by": "string", "locked_time": "timestamp", "lock_expires_time": "timestamp",
    "started_time": "timestamp", "lock_token": "bigint", "num_attempts": "int",
    "max_attempts": "int", "num_crashes": "int", "num_abandons": "int", "retry_base_ms": "int",
    "dedup_key": "string", "group_key": "string", "group_blocked": "boolean",
    "returned": "boolean", "cancel_requested": "boolean", "load_id": "string",
    "payload": "string", "headers": "string", "last_error": "string",
    "completion_time": "timestamp",
}  # fmt: skip


#: The columns of the tables that can be read, with their types. `requests` is the queue and the
#: history together.
COLUMNS = {
    "queue": _COLUMNS,
    "history": {**_COLUMNS, "result": "string"},
    "requests": {**_COLUMNS, "result": "string"},
}
TABLES = {"queue": "queue", "history": "queue_history", "requests": "requests"}
APPLICATION = "rowlease spark"


class RequestReader(DataSourceReader):
    """Reads requests. Each range of ids has its own snapshot, so the result is not one snapshot.

    Args:
        table: a key of `SCHEMAS`.
        schema: the columns to read, a StructType.
        equal: for each of these columns, the values that a row may have.
        count: the number of ranges of ids.
        expressions: SQL for columns that the table does not have under their names.
        window: the range of times to read; None means all times.
    """

    def __init__(
        self,
        dsn: str,
        table: str,
        schema: Any,
        equal: Mapping[str, Collection[str]],
        count: int,
        expressions: Mapping[str, str] | None = None,
        window: Window | None = None,
    ) -> None:
        self._dsn = dsn
        self._table = TABLES[table]
        self._schema = schema
        self._equal = dict(equal)
        self._count = count
        known = expressions or {}
        self._columns = [known.get(name, f'"{name}"') for name in schema.names]
        self._window = window

    def partitions(self) -> Sequence[InputPartition]:
        with closing(bulk_store(self._dsn, APPLICATION)) as store:
            found = store.id_ranges(self._table, self._equal, self._count, self._window)
        return [InputPartition(tuple(each)) for each in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches: Spark takes them as they are, where it converts tuples one by one."""
        part = IdRange(*partition.value)
        with closing(bulk_store(self._dsn, APPLICATION)) as store:
            for block in store.read_range(
                self._table, self._columns, self._equal, part, self._window
            ):
                yield from from_csv(block, self._schema)
