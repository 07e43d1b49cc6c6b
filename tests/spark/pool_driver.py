"""A Spark driver as a program of its own: runs pools on request from stdin, answers on stdout.

    python pool_driver.py SETTINGS

Spark has one session per process, and the other tests' one is local.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from datetime import timedelta
from typing import Any

from rowlease import task

DURATIONS = ("duration", "lease", "grace")


def serve(settings: dict[str, str]) -> None:
    """One line of JSON in for each pool, one out."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from rowlease.errors import RowleaseError
    from rowlease.spark import work
    from rowlease.spark.java import java_home

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    sys.path.append(os.environ["ONLY_ON_THE_DRIVER"])
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    answer({"port": spark.conf.get("spark.driver.port")})
    for line in sys.stdin:
        given = json.loads(line)
        for name in DURATIONS:
            if name in given:
                given[name] = timedelta(seconds=given[name])
        reported: list[object] = []
        if module := given.pop("task_of", None):
            given["tasks"] = importlib.import_module(module).nap
        if given.pop("own_task", False):
            given["tasks"] = own
        try:
            summary = work(spark, progress=reported.append, **given)
            answer({"summary": summary._asdict(), "reported": list(map(str, reported))})
        except RowleaseError as error:
            answer({"error": type(error).__name__, "says": str(error)})
    spark.stop()


@task
def own() -> None:
    """A task of the script itself."""


def answer(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
