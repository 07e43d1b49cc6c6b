"""Reads files as DataFrames. A row that cannot be read causes an error, not a row of nulls."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest

logger = logging.getLogger("rowlease")

#: Spark's options for each format. Without FAILFAST, a malformed line becomes a row of nulls.
FORMAT_OPTIONS = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST", "escape": '"',
            "multiLine": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}  # fmt: skip
#: The setting with which Spark reads times in nanoseconds as integers.
NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"
#: The SQL that makes a time of microseconds since 1970, by whether the time is in UTC or local.
TIME_SQL = {
    True: "timestamp_micros({})",
    False: "timestamp_ntz'1970-01-01 00:00:00' + {} * interval '0.000001' second",
}
#: Parts of the names of Spark's errors about malformed lines and files.
MALFORMED = ("MALFORMED", "FAILED_READ_FILE", "CANNOT_READ_FILE", "INFER_SCHEMA", "CORRUPT")


def read_files(session: Any, source: str, form: str) -> Any:
    """Read files as a DataFrame.

    Args:
        session: the Spark session.
        source: a path on this machine, or a URI that Spark can read, such as `s3a://bucket/folder`.
        form: the format: parquet, csv or json.

    Raises:
        ConfigError: the source does not exist, or has no columns in this format.
        InvalidRequest: a file is malformed, or Spark has no type for a column.
    """
    from pyspark.errors import PySparkException

    where = source
    if "://" not in source:
        if not Path(source).exists():
            raise ConfigError(f"the input {source} does not exist")
        # A URI, because Spark may look for a path in the default file system of its cluster. Spark
        # takes it as it is: `as_uri` would encode a blank.
        where = f"file://{Path(source).resolve()}"
    try:
        with file_errors(source, form):
            frame = session.read.options(**FORMAT_OPTIONS[form]).format(form).load(where)
    except PySparkException as error:
        if "TIMESTAMP(NANOS" not in str(error):
            reason = str(error).strip().partition("\n")[0]
            raise InvalidRequest(f"Spark cannot read the input {source}: {reason}") from error
        frame = nanoseconds_cut(session, source, where)
    if not frame.columns:
        raise ConfigError(f"the input {source} has no columns; is it {form}?")
    return frame


def nanoseconds_cut(session: Any, source: str, where: str) -> Any:
    """Read Parquet files with times in nanoseconds, as pandas writes them, in microseconds.

    Spark has no type for them, but can read them as integers. Which integers are times is only in
    the files.

    Raises:
        InvalidRequest: a column has such times in some files only, or inside of its values.
    """
    from pyspark.sql import functions as F

    # A session of its own, because the setting would change what others read.
    session = session.newSession()
    session.conf.set(NANOS_AS_LONG, "true")
    frame = session.read.parquet(where)
    of_files = [nanosecond_columns(session, file) for file in frame.inputFiles()]
    columns = of_files[0]
    for found in of_files:
        for name in found.keys() | columns.keys():
            if found.get(name) != columns.get(name) or not columns[name]:
                raise InvalidRequest(
                    f"the input {source} has nanoseconds in the column {name!r}, inside of its "
                    "values or in some files only; write it with microseconds, in pandas with "
                    'to_parquet(..., coerce_timestamps="us", allow_truncated_timestamps=True)'
                )
    logger.warning("nanoseconds of the columns %s are cut to microseconds", ", ".join(columns))
    return frame.withColumns(
        {
            name: F.expr(to_time.format(f"`{name.replace('`', '``')}` div 1000"))
            for name, to_time in columns.items()
        }
    )


def nanosecond_columns(session: Any, file: str) -> dict[str, str]:
    """The columns of a Parquet file with times in nanoseconds, by name.

    Returns:
        For each such column the SQL that makes a time of microseconds since 1970; an empty text for
        a column with such times inside of its values.
    """
    jvm = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    hadoop = jvm.org.apache.parquet.hadoop
    footer = hadoop.ParquetFileReader.open(
        hadoop.util.HadoopInputFile.fromPath(path, session._jsc.hadoopConfiguration())
    )
    try:
        fields = footer.getFileMetaData().getSchema().getFields()
    finally:
        footer.close()
    found = {}
    for field in fields:
        text = str(field)
        if "(TIMESTAMP(NANOS," in text:
            is_time = field.isPrimitive()
            found[str(field.getName())] = TIME_SQL["true)" in text] if is_time else ""
    return found


@contextmanager
def file_errors(source: str, form: str) -> Iterator[None]:
    """Convert errors of Spark about malformed files, whose messages would quote a row.

    Raises:
        InvalidRequest: a row or file is malformed.
        Exception: any other exception of the block, unchanged.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if not any(name in text for name in MALFORMED):
            raise
        raise InvalidRequest(
            f"the input {source} has a row or file that is not valid {form}; nothing was enqueued"
        ) from error
