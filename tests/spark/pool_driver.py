"""A Spark driver as a program of its own: runs pools as it is told on stdin, answers on stdout.

    python pool_driver.py SETTINGS

Spark has one session per process, and the other tests' one is local.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from typing import Any

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
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    answer({"up": True})
    for line in sys.stdin:
        given = json.loads(line)
        for name in DURATIONS:
            if name in given:
                given[name] = timedelta(seconds=given[name])
        told: list[str] = []
        if given.pop("task_object", False):
            from tests.spark.pool_tasks import nap

            given["tasks"] = nap
        try:
            summary = work(spark, progress=lambda each: told.append(str(each)), **given)
            answer({"summary": summary._asdict(), "told": told})
        except RowleaseError as error:
            answer({"error": type(error).__name__, "says": str(error)})
    spark.stop()


def answer(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
