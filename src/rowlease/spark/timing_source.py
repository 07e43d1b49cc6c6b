"""The format `rowlease-times`: when requests waited, ran and failed, in a range of times.

This format is like `format("rowlease")`, but without payloads and results, which may be large. The
database filters the rows by the range of times.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSourceReader

from rowlease.errors import ConfigError
from rowlease.spark.source import RowleaseSource
from rowlease.spark.source_reader import RequestReader
from rowlease.store import Window

OPTIONS = {"dsn", "table", "queue", "since", "until", "partitions"}
#: The type of each column, and the SQL expression for it. Only the first line of an error is read.
COLUMNS = {
    "queue_name": ("string", "queue_name"),
    "kind": ("string", "kind"),
    "status": ("string", "status"),
    "priority": ("int", "priority"),
    "requested_time": ("timestamp", "requested_time"),
    "due_time": ("timestamp", "due_time"),
    "locked_time": ("timestamp", "locked_time"),
    "completion_time": ("timestamp", "completion_time"),
    "num_attempts": ("int", "num_attempts"),
    "error": ("string", "left(split_part(last_error, chr(10), 1), 300)"),
}


def register_times(spark: Any) -> None:
    """Register the format in a session. Safe to call again."""
    spark.dataSource.register(TimesSource)


class TimesSource(RowleaseSource):
    """The format `rowlease-times`."""

    @classmethod
    def name(cls) -> str:
        return "rowlease-times"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())

    def reader(self, schema: Any) -> DataSourceReader:
        """Options: dsn, table (queue or history), queue, since, until, partitions."""
        self._check(OPTIONS)
        table = self._table()
        if table == "requests":
            raise ConfigError("option table must be queue or history")
        queue = self.options.get("queue")
        return RequestReader(
            self._dsn(),
            table,
            {} if queue is None else {"queue_name": queue},
            int(self.options.get("partitions", "8")),
            [expression for _, expression in COLUMNS.values()],
            Window(self.options.get("since"), self.options.get("until")),
        )
