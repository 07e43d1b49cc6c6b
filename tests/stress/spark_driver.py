"""A Spark driver in a process of its own, so that it can be killed; it runs loads on request.

    python -m tests.stress.spark_driver FOLDER [spark://HOST:PORT]

Without a master it starts one, with two workers. It reads loads from its standard input, a line of
JSON each, and answers with one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from rowlease.errors import ConfigError
from tests.spark.clusters import standalone
from tests.spark.jvm import LEAN

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": LEAN,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": LEAN,
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Without it Spark would unite the two partitions of a small frame.
    "spark.sql.adaptive.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    # Read by the scheduler at its start, and again for each set of tasks.
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
}


def session(folder: Path, master: str | None) -> tuple[Any, str]:
    """A session, and the master's address."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from rowlease.spark.java import java_home
    from rowlease.spark.jdbc_drivers import driver_settings, drivers_for

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    log = folder / "events"
    log.mkdir(parents=True)
    conf = SparkConf(loadDefaults=False).setAppName("faults")
    conf.setAll([*SETTINGS.items(), *driver_settings(drivers_for(None)).items()])
    conf.set("spark.eventLog.dir", log.as_uri())
    SparkContext._ensure_initialized(conf=conf)
    if master is None:
        master = standalone(SparkContext._gateway, folder)
    conf.setMaster(master)
    return SparkSession.builder.config(conf=conf).getOrCreate(), master


def frame(spark: Any, load: dict[str, Any]) -> Any:
    """Rows `n`. If the load is keyed, every other one has a key, one of `keys`."""
    rows = spark.range(0, load["rows"], 1, 3).selectExpr("id as n")
    return shaped(rows, load)


def shaped(rows: Any, load: dict[str, Any]) -> Any:
    """`n` as a payload, in a number of partitions; the first computes slowly.

    After a shuffle the rows come in the order in which they arrive.
    """
    rows = rows.repartition(load["partitions"])
    sleep = f"java_method('java.lang.Thread', 'sleep', {load['pause']}L)"
    slow = f"if(spark_partition_id() = 0 and n % 10 = 0, {sleep}, '')"
    key = f"if(n % 2 = 0, null, concat('{load['way']}', n % {load['keys']})) as dedup_key"
    return rows.selectExpr(
        f"to_json(struct(n, '{load['by']}' as by, {slow} as slow)) as payload",
        *([key] if load["keyed"] else []),
    )


def run(spark: Any, load: dict[str, Any]) -> None:
    """One load, by one of the ways in."""
    from rowlease.spark import batch_sink, enqueue, register

    register(spark)
    ours = {"dsn": load["dsn"], "queue": "default", "kind": "k"}
    given = {**ours, "payload": "payload"}
    if load["keyed"]:
        given["dedup_key"] = "dedup_key"
    if load["way"] in ("copy", "jdbc"):
        enqueue(frame(spark, load), load_id=load["load_id"], by=load["way"], **given)
    elif load["way"] == "format":
        rows = frame(spark, load)
        rows.write.format("rowlease").options(**ours, load_id=load["load_id"]).mode("append").save()
    else:
        source = spark.readStream.schema("n bigint").json(load["source"])
        name = load["load_id"].partition("/")[0]
        if load["way"] == "sink":
            sink = batch_sink(stream=name, **given)
            stream = source.writeStream.foreachBatch(
                lambda batch, number: sink(shaped(batch, load), number)
            )
        else:
            rows = shaped(source, load)
            stream = rows.writeStream.format("rowlease").options(**ours, stream=name)
        stream = stream.option("checkpointLocation", load["source"] + ".checkpoint")
        stream.trigger(availableNow=True).start().awaitTermination()


class Seen:
    """What Spark wrote of its tasks since the last look."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._bus = spark.sparkContext._jsc.sc().listenerBus()
        (path,) = (folder / "events").iterdir()
        self._log = path.open()

    def counts(self) -> Counter[str]:
        self._bus.waitUntilEmpty()
        counts: Counter[str] = Counter()
        for line in self._log:
            event = json.loads(line) if line.endswith("}\n") else {}
            if event.get("Event") == "SparkListenerTaskStart":
                counts["copies"] += event["Task Info"]["Speculative"]
            if event.get("Event") == "SparkListenerTaskEnd":
                counts[event["Task End Reason"]["Reason"]] += 1
            if event.get("Event") == "SparkListenerExecutorRemoved":
                counts["executors lost"] += 1
        return counts


def main() -> None:
    lock = threading.Lock()

    def say(answer: dict[str, Any]) -> None:
        with lock:
            sys.stdout.write(f"@{json.dumps(answer)}\n")
            sys.stdout.flush()

    folder = Path(sys.argv[1])
    try:
        spark, master = session(folder, sys.argv[2] if sys.argv[2:] else None)
    except ConfigError as error:
        say({"cannot": str(error)})
        return
    seen = Seen(spark, folder)

    def load(reported: dict[str, Any]) -> None:
        conf = spark.sparkContext._jsc.sc().conf()
        conf.set("spark.speculation", str(bool(reported["speculation"])).lower())
        error = None
        try:
            run(spark, reported)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"[:4000]
        say({"load_id": reported["load_id"], "error": error, "seen": seen.counts()})

    say({"master": master})
    for line in sys.stdin:
        threading.Thread(target=load, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
