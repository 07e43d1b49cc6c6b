"""A client of Spark Connect, which has no JVM, enqueues and reads back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rowlease.store import Store
from tests.spark.test_enqueue import with_password

pytest.importorskip("grpc", reason="no grpc: `pip install 'pyspark[connect]'` brings it")

CLIENT = """
import json, sys
from pyspark.sql import SparkSession, functions as F
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.spark import enqueue, read_requests

url, dsn = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
frame = spark.range(100)
load = {"queue": "default", "kind": "k", "priority": F.col("id") % 3, "load_id": "remote"}
answers = [enqueue(frame, dsn, **load), enqueue(frame, dsn, **load, writers=1)]
keys = {"queue": "default", "kind": "k", "dedup_key": F.col("id") % 10, "writers": 1}
answers.append(enqueue(frame, dsn, **keys))

refused = []
jdbc = {"by": "jdbc", "load_id": "jdbc"}
for given in {"queue": "nix"}, {"priority": "nix"}, {"kind": "other"}, jdbc:
    try:
        enqueue(frame, dsn, **load | given)
    except (ConfigError, InvalidRequest) as error:
        refused.append(str(error))

rows = frame.selectExpr("to_json(struct(id)) as payload")
options = {"dsn": dsn, "queue": "default", "kind": "k", "load_id": "format"}
rows.write.format("rowlease").mode("append").options(**options).save()

found = read_requests(spark, dsn, status="Pending").groupBy("load_id").count().collect()
counts = {row["load_id"]: row["count"] for row in found}
print(json.dumps({"answers": answers, "refused": refused, "counts": counts}))
"""


def test_a_client_without_a_jvm_enqueues_and_reads_back(
    spark: Any, connect_port: int, event_log: Path, dsn: str, store: Store
) -> None:
    dsn, password = with_password(dsn)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{connect_port}", dsn],
        env=kept | {"JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["answers"] == [
        ["ok", 100, 100, 0, 0],
        ["repeat", 100, 100, 0, 0],
        ["ok", 100, 10, 90, 0],
    ]
    queue, priority, kind, by = told["refused"]
    assert queue.startswith('queue "nix" does not exist')
    assert "nix" in priority
    assert "was enqueued from other columns" in kind
    assert by.startswith("in a session of Spark Connect, rows are written by COPY")
    assert sorted(told["counts"].values()) == [10, 100, 100]
    assert told["counts"]["remote"] == told["counts"]["format"] == 100
    logged = "".join(path.read_text() for path in event_log.rglob("*") if path.is_file())
    assert "remote" in logged
    assert password not in logged
