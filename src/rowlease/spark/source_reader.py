"""Reads requests in ranges of their ids. Each Spark task reads one range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

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


def _schema(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


#: The columns of the tables that can be read. `requests` is the queue and the history together.
SCHEMAS = {
    "queue": _schema(_COLUMNS),
    "history": _schema({**_COLUMNS, "result": "string"}),
    "requests": _schema({**_COLUMNS, "result": "string"}),
}
TABLES = {"queue": "queue", "history": "queue_history", "requests": "requests"}
APPLICATION = "rowlease spark"


class RequestReader(DataSourceReader):
    """Reads requests. Each range of ids has its own snapshot, so the result is not one snapshot.

    Args:
        table: a key of `SCHEMAS`.
        equal: the value that rows must have in each of these columns.
        count: the number of ranges of ids.
        columns: SQL expressions to read; None means all columns.
        window: the range of times to read; None means all times.
    """

    def __init__(
        self,
        dsn: str,
        table: str,
        equal: Mapping[str, str],
        count: int,
        columns: Sequence[str] | None = None,
        window: Window | None = None,
    ) -> None:
        self._dsn = dsn
        self._table = TABLES[table]
        self._equal = dict(equal)
        self._count = count
        names = [*_COLUMNS, *([] if table == "queue" else ["result"])]
        texts = ("payload", "headers", "result")
        self._columns = columns or [f"{n}::text" if n in texts else n for n in names]
        self._window = window

    def partitions(self) -> Sequence[InputPartition]:
        with closing(bulk_store(self._dsn, APPLICATION)) as store:
            found = store.id_ranges(self._table, self._equal, self._count, self._window)
        return [InputPartition(tuple(each)) for each in found]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with closing(bulk_store(self._dsn, APPLICATION)) as store:
            part = IdRange(*partition.value)
            yield from store.read_range(self._table, self._columns, self._equal, part, self._window)
