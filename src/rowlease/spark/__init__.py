"""For Spark: enqueues DataFrames, reads requests back, and runs tasks on a cluster's executors.

    from rowlease.spark import enqueue, local_session, read_requests, register, work

Raises:
    ConfigError: PySpark is not installed, or is older than 3.5 (raised on import). `register` and
        `batch_sink` need PySpark 4.1 (raised when they are imported).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rowlease.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError("PySpark is not installed; run `pip install 'rowlease[spark]'`")

from pyspark.version import __version__

#: PySpark's version. Spark's own installation has no metadata of a package for importlib.metadata.
PYSPARK = __version__


def _is_older(*than: int) -> bool:
    return tuple(map(int, PYSPARK.split(".")[:2])) < than


if _is_older(3, 5):
    raise ConfigError(f"rowlease needs PySpark 3.5 or newer; this is {PYSPARK}")

if TYPE_CHECKING:
    from rowlease.spark.jdbc_reader import read_requests
    from rowlease.spark.load import enqueue
    from rowlease.spark.pool import work
    from rowlease.spark.session import local_session
    from rowlease.spark.source import register
    from rowlease.spark.stream import batch_sink

__all__ = ["batch_sink", "enqueue", "local_session", "read_requests", "register", "work"]
#: The module of each name. It is imported when the name is first used, because Spark's Python
#: workers import this package for `format("rowlease")`, and need none of the names.
MODULES = {
    "batch_sink": "stream",
    "enqueue": "load",
    "local_session": "session",
    "read_requests": "jdbc_reader",
    "register": "source",
    "work": "pool",
}
#: What needs data sources in Python that are given Arrow batches.
SINCE_4_1 = ("batch_sink", "register")


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'rowlease.spark' has no attribute {name!r}")
    if name in SINCE_4_1 and _is_older(4, 1):
        raise ConfigError(
            f'{name} and format("rowlease") need PySpark 4.1 or newer; this is {PYSPARK}, with '
            "which enqueue() works"
        )
    return getattr(import_module(f"rowlease.spark.{MODULES[name]}"), name)
