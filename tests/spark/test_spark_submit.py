"""`rowlease spark-enqueue` as a program that spark-submit runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest

import rowlease
from rowlease.spark.java import java_home
from rowlease.spark.jdbc_drivers import driver_settings, drivers_for
from tests.spark.jvm import LEAN

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def submit(spark: Any, dsn: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command under spark-submit; the test's session has brought the JDBC driver."""
    program = Path(rowlease.__file__).with_name("__main__.py")
    settings = driver_settings(drivers_for(dsn)) | {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": LEAN,
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    found = {
        "ROWLEASE_DSN": dsn,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master=local[1]",
            *(f"--conf={key}={value}" for key, value in settings.items()),
            str(program),
            "spark-enqueue",
            *arguments,
        ]
        return subprocess.run(
            command, env={**os.environ, **found}, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.timeout(600)  # four JVMs, one after the other
def test_the_command_runs_in_the_session_that_was_submitted(
    submit: Callable[..., subprocess.CompletedProcess[str]], sql: Sql, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    ran = submit("k", f"--input={tmp_path.as_uri()}", "--format=json", "--load-id=submitted")
    # spark-submit sends both of the program's streams to its stdout.
    assert ran.stdout.endswith("2 of 2 rows enqueued into default\n"), ran.stderr
    assert sql("select payload ->> 'n' from rowlease.requests order by 1") == [("1",), ("2",)]
    failed = submit("k", f"--input={tmp_path.as_uri()}", "--format=json", "--queue=nix")
    assert failed.returncode != 0
    assert 'queue "nix" does not exist' in failed.stdout
