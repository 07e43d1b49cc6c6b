"""Starts a Spark session on this machine, with the JDBC driver for a database."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import Any

from platformdirs import user_cache_path

from rowlease.cores import usable_cores
from rowlease.embedded.keeper import FileLock
from rowlease.errors import ConfigError
from rowlease.spark.java import java_home
from rowlease.spark.jdbc_drivers import (
    JARS_VARIABLE,
    check_driver,
    driver_settings,
    drivers_for,
)
from rowlease.store import JdbcDriver

#: Finds a failed download in Spark's stderr.
NOT_RESOLVED = re.compile(r"unresolved dependenc|download failed|problems? when resolving", re.I)
#: Finds the reason for a failed download in Spark's stderr.
REASONS = re.compile(r"Server access error at url \S+ \((.+)\)|(Host \S+ not found)")

#: The lock file in the user's cache folder that is held while drivers are downloaded.
RESOLVING = "resolving.lock"
#: The longest wait for the lock of RESOLVING, in seconds.
RESOLVING_SECONDS = 300.0

#: spark-submit sets this variable for a Python program.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
#: This logger gets the output of the JVM after Spark has started, at level DEBUG, because Spark's
#: errors quote rows.
log = logging.getLogger("rowlease.spark")
#: The passwords in the text of a plan: of DSNs, and of the options of JDBC.
CONNECT_SECRETS = r"""://[^\s"']+@|key: "password"\s+value: "[^"]*["]"""


def local_session(
    app_name: str = "rowlease",
    *,
    cores: int | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
    dsn: str | None = None,
    jdbc: bool = True,
) -> Any:
    """Start a Spark session inside this process, on 127.0.0.1 only.

    A process has only one Spark session. If a session is running, it is returned unchanged. This
    function sets JAVA_HOME and PYSPARK_PYTHON in the environment of this process, so that Spark's
    scripts and workers use the same Java and Python.

    Args:
        app_name: the name of the application in Spark.
        cores: the number of tasks that run at once. None means the cores that this process may use.
        memory: the size of the JVM's heap, such as "2g".
        settings: further settings of Spark, which override those that this function sets.
        dsn: the database whose JDBC driver is needed; None means PostgreSQL's driver.
        jdbc: whether the session needs a JDBC driver. Writing with `format("rowlease")` needs none.

    Returns:
        A pyspark.sql.SparkSession, which the caller stops.

    Raises:
        ConfigError: there is no Java, a jar of ROWLEASE_JDBC_JARS does not exist, a JDBC driver
            cannot be downloaded from Maven or is not in the running session, or the JVM does not
            start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    drivers = drivers_for(dsn)
    if SparkContext._active_spark_context is not None:
        running = SparkSession.builder.getOrCreate()
        if jdbc:
            check_driver(running, drivers[-1])
        return running
    cores = cores or usable_cores()
    conf = SparkConf(loadDefaults=False).setMaster(f"local[{cores}]").setAppName(app_name)
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        # Shuffles of a local session are small. Spark's 200 partitions would only add tasks.
        "spark.sql.shuffle.partitions": str(2 * cores),
        # Spark's default, and the DSN of format("rowlease"), which plans and event logs would show.
        "spark.sql.redaction.options.regex": "(?i)url|^dsn$",
        # A server of Spark Connect writes its clients' plans, and the options in them, as text.
        "spark.sql.redaction.string.regex": CONNECT_SECRETS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(driver_settings(drivers) if jdbc else {}),
        **(settings or {}),
    }.items():
        conf.set(key, value)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with resolving() if conf.contains("spark.jars.packages") else nullcontext():
        _launch_jvm(conf, drivers)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    if jdbc:
        check_driver(session, drivers[-1])
    return session


@contextmanager
def resolving() -> Iterator[None]:
    """Hold a lock of this user while drivers are downloaded.

    Ivy, which downloads for Spark, does not lock its cache. If two processes download at once, one
    of them may find an incomplete file and report that no repository has the driver.
    """
    try:
        lock = FileLock(user_cache_path("rowlease", ensure_exists=True) / RESOLVING)
    except OSError:  # Ivy cannot write its cache either, and reports that
        yield
        return
    with closing(lock):
        lock.take(patience=RESOLVING_SECONDS)
        yield


@contextmanager
def a_session(app_name: str, dsn: str) -> Iterator[Any]:
    """The running session, or the session of spark-submit, or a local session.

    Raises:
        ConfigError: see `local_session`.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        yield local_session(app_name, dsn=dsn)
        return
    if SUBMITTED in os.environ:
        session = SparkSession.builder.getOrCreate()
        check_driver(session, drivers_for(dsn)[-1])
    else:
        session = local_session(app_name, dsn=dsn)
    try:
        yield session
    finally:
        session.stop()


def _launch_jvm(conf: Any, drivers: list[JdbcDriver]) -> None:
    """Start Spark's JVM as PySpark does, but read the output of the JVM.

    PySpark reports only that the JVM has ended. The reason is in the JVM's stderr.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return  # the JVM of an earlier session is still running
    output = JvmOutput()
    try:
        with no_orphans():
            gateway = launch_gateway(conf, {"stdout": output.inlet, "stderr": output.inlet})
    except BaseException as error:
        text = output.close()
        if isinstance(error, PySparkRuntimeError):
            raise why_not_started(text, drivers) from error
        if isinstance(error, OSError):
            raise ConfigError(f"Spark could not be started: {error}") from error
        raise
    output.started()
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def no_orphans() -> Iterator[None]:
    """Kill the processes that PySpark has started if the block raises.

    If PySpark is interrupted while the JVM starts, PySpark forgets the JVM, and the JVM would run
    for ever.
    """
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class Remembered(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    popen, java_gateway.Popen = java_gateway.Popen, Remembered
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        raise
    finally:
        java_gateway.Popen = popen


class JvmOutput:
    """A pipe for the output of a JVM. It keeps the output of the JVM's start, and logs the rest."""

    def __init__(self) -> None:
        outlet, self.inlet = os.pipe()
        self._lines: list[str] = []
        self._logging = False
        self._reader = threading.Thread(
            target=self._read, args=(outlet,), name="rowlease-jvm-output", daemon=True
        )
        self._reader.start()

    def _read(self, outlet: int) -> None:
        with open(outlet, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if self._logging:
                    log.debug("%s", line.rstrip())
                else:
                    self._lines.append(line)

    def started(self) -> None:
        """Log the output from now on. Only the JVM keeps the pipe open."""
        os.close(self.inlet)
        self._logging = True
        self._lines.clear()

    def close(self) -> str:
        """Close the pipe and return the output of a JVM that has ended."""
        os.close(self.inlet)
        self._reader.join(timeout=5)
        return "".join(self._lines)


def why_not_started(output: str, drivers: list[JdbcDriver]) -> ConfigError:
    """The error for a JVM that ended before Spark had started, from the JVM's output."""
    if NOT_RESOLVED.search(output):
        reason = next((a or b for a, b in REASONS.findall(output)), "no repository has it")
        packages = " and ".join(driver.package for driver in drivers)
        return ConfigError(
            f"the JDBC driver {packages} could not be resolved from Maven ({reason}); "
            f"set {JARS_VARIABLE} to a local jar of the {drivers[-1].database} JDBC driver"
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception|cannot|could not", line, re.I)]
    reason = (telling or lines or ["it wrote nothing"])[0]
    return ConfigError(f"Spark's JVM at {os.environ['JAVA_HOME']} did not start: {reason}")
