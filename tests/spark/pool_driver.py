"""A Spark driver as a program of its own: runs pools and loads on request, by stdin and stdout.

    python pool_driver.py SETTINGS

Spark has one session per process, and the other tests' one is local.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from rowlease import task
from tests.spark.clusters import STANDALONE, standalone

DURATIONS = ("duration", "lease", "grace")


def serve(settings: dict[str, str]) -> None:
    """One line of JSON in for each pool or load, one out."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from rowlease.errors import RowleaseError
    from rowlease.spark import work
    from rowlease.spark.java import java_home
    from rowlease.spark.jdbc_drivers import driver_settings, drivers_for

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    sys.path.append(os.environ["ONLY_ON_THE_DRIVER"])
    conf = SparkConf(loadDefaults=False)
    master = settings.pop("spark.master")
    for key, value in {**driver_settings(drivers_for(None)), **settings}.items():
        conf.set(key, value)
    if master == STANDALONE:
        SparkContext._ensure_initialized(conf=conf)
        master = standalone(SparkContext._gateway, Path(os.environ["SPARK_LOCAL_DIRS"]))
    conf.setMaster(master)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    answer({"port": spark.conf.get("spark.driver.port")})
    for line in sys.stdin:
        given = json.loads(line)
        if "way" in given:
            answer({"statuses": loaded(spark, **given)})
            continue
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


def loaded(spark: Any, way: str, dsn: str, rows: int) -> dict[str, int]:
    """Enqueue rows from all executors, and count by status what is read back."""
    from rowlease.spark import enqueue, read_requests

    frame = spark.range(rows).repartition(4)
    if way == "enqueue":
        enqueue(frame, dsn, queue="default", kind="nap", load_id=way)
    else:
        request = frame.selectExpr("to_json(struct(id)) as payload")
        options = {"dsn": dsn, "queue": "default", "kind": "nap", "load_id": way}
        request.write.format("rowlease").mode("append").options(**options).save()
    found = read_requests(spark, dsn, load_id=way).groupBy("status").count().collect()
    return {row["status"]: row["count"] for row in found}


@task
def own() -> None:
    """A task of the script itself."""


def answer(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
