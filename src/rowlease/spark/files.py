"""Reads files as DataFrames. A row that cannot be read causes an error, not a row of nulls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest

#: Spark's options for each format. Without FAILFAST, a malformed line becomes a row of nulls.
OPTIONS = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST", "escape": '"',
            "multiLine": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}  # fmt: skip
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
    """
    where = source
    if "://" not in source:
        if not Path(source).exists():
            raise ConfigError(f"the input {source} does not exist")
        # A URI, because Spark may look for a path in the default file system of its cluster.
        where = Path(source).resolve().as_uri()
    with file_errors(source, form):
        frame = session.read.options(**OPTIONS[form]).format(form).load(where)
    if not frame.columns:
        raise ConfigError(f"the input {source} has no columns; is it {form}?")
    return frame


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
