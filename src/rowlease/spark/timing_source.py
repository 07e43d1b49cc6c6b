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
#: The columns.
SCHEMA = (
    "queue_name string, kind string, status string, priority int, requested_time timestamp,"
    " due_time timestamp, locked_time timestamp, completion_time timestamp, num_attempts int,"
    " error string"
)
#: SQL for columns that are not in the table. Only the first line of an error is read.
EXPRESSIONS = {"error": "left(split_part(last_error, chr(10), 1), 300)"}


def register_times(spark: Any) -> None:
    """Register the format in a session. Safe to call again."""
    spark.dataSource.register(TimesSource)


class TimesSource(RowleaseSource):
    """The format `rowlease-times`."""

    @classmethod
    def name(cls) -> str:
        return "rowlease-times"

    def schema(self) -> str:
        return SCHEMA

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
            schema,
            {} if queue is None else {"queue_name": [queue]},
            int(self.options.get("partitions", "8")),
            EXPRESSIONS,
            Window(self.options.get("since"), self.options.get("until")),
        )
