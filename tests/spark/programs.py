"""Spark's own programs, such as spark-submit, as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from rowlease.spark.java import java_home
from rowlease.spark.jdbc_drivers import driver_settings, drivers_for
from tests.spark.jvm import LEAN


def run_program(name: str, dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program on this database. A session has brought the JDBC driver before."""
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
    command = [
        str(Path(pyspark.__file__).parent / "bin" / name),
        "--master=local[1]",
        *(f"--conf={key}={value}" for key, value in settings.items()),
        *arguments,
    ]
    return subprocess.run(
        command,
        env={**os.environ, **found},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
