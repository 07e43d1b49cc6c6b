"""`df.write.format("rowlease")` and `spark.read.format("rowlease")`, without a JDBC driver.

Each attempt of a Spark task writes its rows by COPY, as a separate part of the load. When all tasks
have ended, the driver promotes the parts of the attempts that Spark counts, in one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.spark.columns import schema_text
from rowlease.spark.jdbc_reader import FINAL_STATUSES, statuses
from rowlease.spark.load import named_load
from rowlease.spark.source_reader import COLUMNS, RequestReader
from rowlease.spark.source_writer import ArrowParts, Parts, StreamParts

#: The columns that a frame may have, and the types that each column may have.
WRITTEN = {
    "payload": ("string",),
    "kind": ("string",),
    "priority": ("byte", "short", "integer", "long"),
    "due_time": ("timestamp",),
    "dedup_key": ("string",),
    "group_key": ("string",),
    "headers": ("string",),
}
WRITE_OPTIONS = {"dsn", "queue", "kind", "load_id", "query_id"}
STREAM_OPTIONS = {"dsn", "queue", "kind", "stream", "checkpointlocation"}
#: The maximum length of a stream's name. The load id is this name, `/` and a batch's number.
MAX_STREAM = 80
READ_OPTIONS = {"dsn", "table", "columns", "queue", "load_id", "status", "partitions"}


def register(spark: Any) -> None:
    """Register the format `rowlease` in a session, where rowlease is not installed but shipped.

    Where it is installed, Spark finds the format by itself. Safe to call again.
    """
    spark.dataSource.register(RowleaseSource)


class RowleaseSource(DataSource):
    """The format `rowlease`."""

    @classmethod
    def name(cls) -> str:
        return "rowlease"

    def schema(self) -> str:
        types = COLUMNS[self._table()]
        names = listed(self.options.get("columns")) or types
        self._check_columns(names)
        return ", ".join(f"{name} {types[name]}" for name in names)

    def reader(self, schema: Any) -> DataSourceReader:
        """Options: dsn, table (queue, history or requests), columns, queue, load_id, status,
        partitions."""
        self._check(READ_OPTIONS)
        self._check_columns(schema.names)
        given = self.options.get("partitions", "8")
        if not given.isdigit() or not int(given):
            raise ConfigError(f"option partitions must be 1 or more, not {given!r}")
        equal = {
            column: [self.options[option]]
            for option, column in (("queue", "queue_name"), ("load_id", "load_id"))
            if option in self.options
        }
        table = self._table()
        if "status" in self.options:
            equal["status"] = sorted(statuses(listed(self.options["status"])))
            if table == "requests" and FINAL_STATUSES.issuperset(equal["status"]):
                table = "history"  # it alone has all finished requests
        return RequestReader(self._dsn(), table, schema, equal, int(given))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """Options: dsn, queue, kind (for rows without one), load_id, query_id (of batch_sink)."""
        self._check(WRITE_OPTIONS)
        if overwrite:
            raise ConfigError('requests can only be added; write with .mode("append")')
        parts = self._parts(schema)
        load_id = named_load(self.options.get("load_id"))
        made_of = schema_text(schema, self.options.get("kind"))
        if query := self.options.get("query_id"):
            made_of = f"query {query}: {made_of}"
        return ArrowParts(parts, load_id, made_of)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        """Options: dsn, queue, kind (for rows without one), stream (the name of the stream)."""
        self._check(STREAM_OPTIONS)
        if overwrite:
            raise ConfigError('requests can only be added; write with .outputMode("append")')
        parts = self._parts(schema)
        stream = self.options.get("stream", "")
        if not 1 <= len(stream) <= MAX_STREAM:
            raise ConfigError(
                f"the option stream must be a unique name of 1 to {MAX_STREAM} characters; "
                'add .option("stream", "clicks")'
            )
        return StreamParts(parts, stream)

    def _parts(self, schema: Any) -> Parts:
        """The writer of a frame's rows.

        Raises:
            ConfigError, InvalidRequest: an option or a column is missing or wrong.
        """
        if not self.options.get("queue"):
            raise ConfigError('the option queue is missing; add .option("queue", "default")')
        check_columns(schema)
        if not self.options.get("kind") and "kind" not in schema.names:
            raise ConfigError(
                'no kind: add .option("kind", "a task\'s name"), or give the frame a column kind'
            )
        return Parts(self._dsn(), self.options["queue"], self.options.get("kind"), schema.names)

    def _table(self) -> str:
        table = self.options.get("table", "requests")
        if table not in COLUMNS:
            raise ConfigError(f"option table is {table!r}; the tables are {', '.join(COLUMNS)}")
        return str(table)

    def _check_columns(self, names: Iterable[str]) -> None:
        types = COLUMNS[self._table()]
        if unknown := [name for name in names if name not in types]:
            raise ConfigError(
                f"requests have no column {unknown[0]!r}; they have {', '.join(types)}"
            )

    def _dsn(self) -> str:
        dsn = configured_dsn(self.options.get("dsn"))
        if dsn is None:
            raise ConfigError(
                'no database: add .option("dsn", "postgresql://user:password@host/database")'
            )
        return dsn

    def _check(self, known: set[str]) -> None:
        """Refuse unknown options. Spark passes the names of options in lower case."""
        if unknown := sorted(set(self.options) - known - {"path"}):
            raise ConfigError(
                f"there is no option {unknown[0]!r}; the options are {', '.join(sorted(known))}"
            )


def listed(option: str | None) -> list[str]:
    """The names in an option, which commas separate."""
    return [name.strip() for name in (option or "").split(",") if name.strip()]


def check_columns(schema: Any) -> None:
    """Check that a frame has the columns of a request.

    Raises:
        InvalidRequest: a column is unknown, missing or of another type.
    """
    for field in schema.fields:
        if field.name not in WRITTEN:
            raise InvalidRequest(
                f"requests have no column {field.name!r}; they have {', '.join(WRITTEN)}: "
                "drop the column, or put it into payload with to_json"
            )
        found = field.dataType.typeName().partition("(")[0]
        if found not in WRITTEN[field.name]:
            raise InvalidRequest(
                f"the column {field.name!r} has the type {found}; cast it to "
                f"{' or '.join(WRITTEN[field.name])}"
            )
    if "payload" not in schema.names:
        raise InvalidRequest(
            "the frame has no column 'payload'; make one: to_json(struct(*)) as payload"
        )
