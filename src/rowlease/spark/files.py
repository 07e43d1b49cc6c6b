"""Files as DataFrames, read strictly: a row that cannot be read is an error, not a null."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowlease.errors import ConfigError, InvalidRequest

#: Options for each format. Without FAILFAST a malformed line would become a row of nulls.
OPTIONS = {
    "parquet": {},
    "csv": {"header": "true", "inferSchema": "true", "mode": "FAILFAST", "escape": '"',
            "multiLine": "true", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST"},
}  # fmt: skip
#: Parts of Spark's names for errors of malformed lines and files.
MALFORMED = ("MALFORMED", "FAILED_READ_FILE", "CANNOT_READ_FILE", "INFER_SCHEMA", "CORRUPT")


def read_files(session: Any, source: str, form: str) -> Any:
    """Files as a DataFrame.

    Args:
        source: a path on this machine, or a URI that Spark can read, such as `s3a://bucket/folder`.

    Raises:
        ConfigError: it does not exist, or cannot be read in this format.
    """
    where = source
    if "://" not in source:
        if not Path(source).exists():
            raise ConfigError(f"the input {source} does not exist")
        where = (
            Path(source).resolve().as_uri()
        )  # otherwise Spark may look into its cluster's default file system
    with file_errors(source, form):
        frame = session.read.options(**OPTIONS[form]).format(form).load(where)
    if not frame.columns:
        raise ConfigError(f"the input {source} has no columns; is it {form}?")
    return frame


@contextmanager
def file_errors(source: str, form: str) -> Iterator[None]:
    """Translate errors of Spark about malformed files, whose messages would quote a row.

    Raises:
        InvalidRequest: a row or file is malformed.
        Any other exception of the block, unchanged.
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
