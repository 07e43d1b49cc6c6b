"""For Spark: enqueues DataFrames, reads requests back, and runs tasks on a cluster's executors.

    from rowlease.spark import enqueue, local_session, read_requests, register, work

Raises:
    ConfigError: PySpark is not installed, or is older than 4.1 (raised on import).
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

from rowlease.errors import ConfigError

if find_spec("pyspark") is None:
    raise ConfigError("PySpark is not installed; run `pip install 'rowlease[spark]'`")

if tuple(map(int, version("pyspark").split(".")[:2])) < (4, 1):
    raise ConfigError(f"rowlease needs PySpark 4.1 or newer; this is {version('pyspark')}")

from rowlease.spark.jdbc_reader import read_requests
from rowlease.spark.load import enqueue
from rowlease.spark.pool import work
from rowlease.spark.session import local_session
from rowlease.spark.source import register
from rowlease.spark.stream import batch_sink

__all__ = ["batch_sink", "enqueue", "local_session", "read_requests", "register", "work"]
