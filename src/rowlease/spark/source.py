"""`df.write.format("rowlease")`, without a JDBC driver.

Each attempt of a Spark task writes its rows by COPY, as a separate part of the load. When all tasks
have ended, the driver promotes the parts of the attempts that Spark counts, in one step.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.model import StreamBatch
from rowlease.spark.columns import schema_text
from rowlease.spark.jdbc import is_connect
from rowlease.spark.load import named_load
from rowlease.spark.parts import Parts
from rowlease.spark.source_errors import one_sentence
from rowlease.spark.source_writer import ArrowParts, StreamParts

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
WRITE_OPTIONS = {"dsn", "queue", "kind", "load_id"}
#: The options that only `batch_sink` gives.
SINK_OPTIONS = {"stream", "batch_number", "query_id"}
STREAM_OPTIONS = {"dsn", "queue", "kind", "stream", "checkpointlocation"}
ONLY_WRITES = (
    'format("rowlease") only writes; read with rowlease.spark.read_requests(spark, dsn), or the '
    "view rowlease.requests with Spark's JDBC source"
)
#: The maximum length of a stream's name. The load id is this name, `/` and a batch's number.
MAX_STREAM = 80


def register(spark: Any) -> None:
    """Register the format `rowlease` in a session, and make this the session of the thread.

    Call it where rowlease is not installed but shipped, and in threads that you start: Spark looks
    for formats in the session of the thread, and a new thread has none. Safe to call again.
    """
    spark.dataSource.register(RowleaseSource)
    if not is_connect(spark):
        sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(spark._jsparkSession)


class RowleaseSource(DataSource):
    """The format `rowlease`."""

    @classmethod
    def name(cls) -> str:
        return "rowlease"

    def schema(self) -> str:
        with one_sentence():
            raise ConfigError(ONLY_WRITES)

    def reader(self, schema: Any) -> DataSourceReader:
        with one_sentence():
            raise ConfigError(ONLY_WRITES)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """Options: dsn, queue, kind (for rows without one), load_id; see also SINK_OPTIONS."""
        with one_sentence():
            batch = self._batch()
            self._check(WRITE_OPTIONS if batch is None else WRITE_OPTIONS | SINK_OPTIONS)
            if overwrite:
                raise ConfigError('requests can only be added; write with .mode("append")')
            parts = self._parts(schema)
            load_id = batch.load_id if batch else named_load(self.options.get("load_id"))
            made_of = schema_text(schema, self.options.get("kind"))
            return ArrowParts(parts, self.options["queue"], load_id, made_of, batch)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        """Options: dsn, queue, kind (for rows without one), stream (the name of the stream)."""
        with one_sentence():
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
            return StreamParts(parts, self.options["queue"], stream)

    def _batch(self) -> StreamBatch | None:
        """The batch of a stream that `batch_sink` writes."""
        if "batch_number" not in self.options:
            return None
        number = int(self.options["batch_number"])
        return StreamBatch(self.options["stream"], self.options.get("query_id"), number)

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
        return Parts(self._dsn(), self.options.get("kind"), schema.names)

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
