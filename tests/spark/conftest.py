"""One Spark session for the whole run; each test has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from rowlease.spark.source_errors import HIDE_TRACEBACK
from tests.conftest import free_port
from tests.spark.jvm import LEAN, worker_path

#: The server of Spark Connect, which is part of PySpark 4.
CONNECT = "org.apache.spark.sql.connect.SparkConnectPlugin"


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the session writes everything it would show in its user interface."""
    return tmp_path_factory.mktemp("event-log")


@pytest.fixture(scope="session")
def connect_port() -> int:
    """The port at which clients of Spark Connect find the session's server."""
    return free_port()


@pytest.fixture(scope="session")
def spark(event_log: Path, connect_port: int) -> Iterator[Any]:
    """A session with two cores whose tasks are tried up to four times."""
    from rowlease.errors import ConfigError
    from rowlease.spark import local_session

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", worker_path())
            session = local_session(
                "rowlease tests",
                settings={
                    "spark.master": "local[2,4]",
                    "spark.driver.extraJavaOptions": LEAN,
                    "spark.plugins": CONNECT if version("pyspark") >= "4." else "",
                    "spark.connect.grpc.binding.address": "127.0.0.1",
                    "spark.connect.grpc.binding.port": str(connect_port),
                    "spark.eventLog.enabled": "true",
                    "spark.eventLog.compress": "false",
                    "spark.eventLog.dir": event_log.as_uri(),
                },
                dsn="mssql://localhost/any",  # for its driver, beside PostgreSQL's
            )
    except ConfigError as error:
        pytest.skip(f"Spark cannot start here: {error}")
    yield session
    session.stop()


@pytest.fixture
def registered(spark: Any) -> None:
    """Spark knows `format("rowlease")`."""
    from rowlease.errors import ConfigError

    try:
        from rowlease.spark import register
    except ConfigError as error:
        pytest.skip(str(error))
    register(spark)


@pytest.fixture(autouse=True)
def tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that calls the data source in its own process hides no later traceback."""
    monkeypatch.setenv(HIDE_TRACEBACK, "")
