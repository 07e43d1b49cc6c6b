"""A local session starts with the driver, or raises an error with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from rowlease.embedded.keeper import FileLock
from rowlease.errors import ConfigError
from rowlease.spark import session
from rowlease.spark.jdbc import as_our_error
from rowlease.spark.jdbc_drivers import (
    check_driver,
    driver_settings,
    drivers_for,
)
from rowlease.spark.session import JvmOutput, local_session, why_not_started
from rowlease.store.postgresql.engine import PostgreSQL
from rowlease.store.sqlserver.engine import SqlServer

UNRESOLVABLE = """
from rowlease.spark import session
from rowlease.store.postgresql.engine import PostgreSQL
from rowlease.errors import ConfigError
nowhere = "org.postgresql:postgresql:0.0.0-nowhere"
PostgreSQL.jdbc_driver = PostgreSQL.jdbc_driver._replace(package=nowhere)
try:
    session.local_session()
except ConfigError as error:
    print(error)
"""


def test_a_driver_that_cannot_be_resolved_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLEASE_JDBC_JARS", raising=False)
    done = subprocess.run([sys.executable, "-c", UNRESOLVABLE], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith(
        "the JDBC driver org.postgresql:postgresql:0.0.0-nowhere could not be resolved from Maven ("
    )
    assert done.stdout.endswith(
        "set ROWLEASE_JDBC_JARS to a local jar of the PostgreSQL JDBC driver\n"
    )


def test_one_process_at_a_time_resolves_drivers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ivy does not lock its cache: of four processes at once two reported a missing driver."""

    def is_free() -> bool:
        with closing(FileLock(tmp_path / session.RESOLVING)) as lock:
            return lock.take()

    def launch(*_: object) -> None:
        free.append(is_free())
        raise ConfigError("launched")

    free: list[bool] = []
    monkeypatch.delenv("ROWLEASE_JDBC_JARS", raising=False)
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that it is afterwards as it was
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(session, "user_cache_path", lambda *_, **__: tmp_path)
    monkeypatch.setattr(session, "_launch_jvm", launch)
    for jdbc in (True, False):
        with pytest.raises(ConfigError, match="launched"):
            local_session(jdbc=jdbc)
        assert is_free()
    assert free == [False, True]


def test_the_reason_is_the_one_that_mavens_client_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/jdk")
    refused = (
        "Server access error at url https://repo1.maven.org/maven2/x.pom "
        "(javax.net.ssl.SSLHandshakeException: PKIX path building failed)\n"
        ":: UNRESOLVED DEPENDENCIES ::\n"
        "java.lang.RuntimeException: [unresolved dependency: x: not found]\n"
    )
    assert "(javax.net.ssl.SSLHandshakeException: PKIX path building failed)" in str(
        why_not_started(refused, [PostgreSQL.jdbc_driver])
    )
    other = "WARNING: x\nError: Could not create the Java Virtual Machine.\nmore\n"
    assert str(why_not_started(other, [PostgreSQL.jdbc_driver])) == (
        "Spark's JVM at /jdk did not start: Error: Could not create the Java Virtual Machine."
    )


def test_jars_of_the_environment_are_used_and_a_missing_one_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.jar", tmp_path / "b.jar"
    first.touch()
    second.touch()
    for separator in (",", ", ", ":"):
        monkeypatch.setenv("ROWLEASE_JDBC_JARS", f"{first}{separator}{second}")
        assert driver_settings([PostgreSQL.jdbc_driver]) == {"spark.jars": f"{first},{second}"}
    monkeypatch.setenv("ROWLEASE_JDBC_JARS", f"{first},{tmp_path / 'c.jar'}")
    with pytest.raises(
        ConfigError, match=r"ROWLEASE_JDBC_JARS names .*/c\.jar, which is not a file"
    ):
        driver_settings([PostgreSQL.jdbc_driver])
    monkeypatch.setenv("ROWLEASE_JDBC_JARS", "")
    assert (
        driver_settings([PostgreSQL.jdbc_driver])["spark.jars.packages"]
        == PostgreSQL.jdbc_driver.package
    )


def test_a_session_for_sql_server_has_both_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLEASE_JDBC_JARS", raising=False)
    assert drivers_for("postgresql://host/x") == drivers_for(None) == [PostgreSQL.jdbc_driver]
    packages = driver_settings(drivers_for("mssql://host/x"))["spark.jars.packages"]
    assert packages == f"{PostgreSQL.jdbc_driver.package},{SqlServer.jdbc_driver.package}"


def test_a_driver_that_is_not_what_was_published_is_refused(spark: Any) -> None:
    if os.environ.get("ROWLEASE_JDBC_JARS"):
        pytest.skip("the driver is a jar of ROWLEASE_JDBC_JARS, which has no hash to compare")
    check_driver(spark, PostgreSQL.jdbc_driver)
    with pytest.raises(ConfigError, match=r"postgresql-\S+\.jar is not the published JDBC driver"):
        check_driver(spark, PostgreSQL.jdbc_driver._replace(sha256="0" * 64))


def test_what_the_jvm_prints_is_logged_for_debugging_only(caplog: pytest.LogCaptureFixture) -> None:
    """Spark prints the rows that it cannot read."""
    output = JvmOutput()
    stderr = os.dup(output.inlet)
    output.started()
    with caplog.at_level("DEBUG", logger="rowlease.spark"):
        os.write(stderr, b"Caused by: Malformed CSV record: 4711;secret\n")
        os.close(stderr)
        output._reader.join()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "Caused by: Malformed CSV record: 4711;secret")
    ]


def test_a_second_session_of_a_process_is_the_first(spark: Any) -> None:
    assert local_session("another").sparkContext is spark.sparkContext


def test_the_session_works_in_utc_on_this_machine_only(spark: Any) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_a_session_without_the_driver_is_an_error_that_names_the_package() -> None:
    thrown = RuntimeError("java.lang.ClassNotFoundException: org.postgresql.Driver")
    error = as_our_error(thrown, "postgresql://localhost/any", "the rows could not be staged")
    assert isinstance(error, ConfigError)
    assert f"start it with --packages {PostgreSQL.jdbc_driver.package} (" in str(error)
