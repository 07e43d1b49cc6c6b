"""Files as DataFrames, read strictly: a row that cannot be read is an error, not a null."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest

#: How each format is read. Without FAILFAST a broken line would become a row of nulls.
OPTIONS = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST", "escape": '"',
            "multiLine": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}  # fmt: skip
#: Spark's name for a line or file that is not what the format says.
MALFORMED = ("MALFORMED", "FAILED_READ_FILE", "CANNOT_READ_FILE", "INFER_SCHEMA", "CORRUPT")


def read_files(session: Any, source: str, form: str) -> Any:
    """Files as a DataFrame.

    Args:
        source: a path on this machine, or a URI that Spark can read, such as `s3a://bucket/folder`.

    Raises:
        ConfigError: it is not there, or cannot be read as this format.
    """
    where = source
    if "://" not in source:
        if not Path(source).exists():
            raise ConfigError(f"the input {source} does not exist")
        where = Path(source).resolve().as_uri()  # else Spark may look into its cluster's own store
    with file_errors(source, form):
        frame = session.read.options(**OPTIONS[form]).format(form).load(where)
    if not frame.columns:
        raise ConfigError(f"the input {source} has no columns; is it {form}?")
    return frame


@contextmanager
def file_errors(source: str, form: str) -> Iterator[None]:
    """Say in a sentence that Spark cannot read a file; its own words would quote a row.

    Raises:
        InvalidRequest: a row is not what the format says.
        Whatever else the block raises, unchanged.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        said = str(error)
        if not any(name in said for name in MALFORMED):
            raise
        raise InvalidRequest(
            f"the input {source} has a row or file that is no {form}; nothing was enqueued"
        ) from error
