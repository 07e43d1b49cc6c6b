"""Two drivers write one load at once: one enqueues its rows, the other gets LoadLost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from rowlease.spark import enqueue, register
from tests.stress.meddler import AFTER, BEFORE, Act, Meddler

Sql = Callable[..., list[tuple[Any, ...]]]
#: What writes a load on a database: given the session, the driver's name, the DSN and a folder.
Write = Callable[[Any, str, str, Path], None]
#: Seconds that a test waits for a driver to come to a certain point.
PATIENCE = 60


def payload(name: str) -> Any:
    return F.to_json(F.struct("id", F.lit(name).alias("by"))).alias("payload")


def by_jdbc(spark: Any, name: str, dsn: str, folder: Path) -> None:
    frame = spark.range(0, 1000, 1, 2).select(payload(name))
    enqueue(frame, dsn, queue="default", kind="k", payload="payload", load_id="x/0")


def by_copy(spark: Any, name: str, dsn: str, folder: Path) -> None:
    frame = spark.range(0, 1000, 1, 2).select(payload(name))
    options = {"dsn": dsn, "queue": "default", "kind": "k", "load_id": "x/0"}
    frame.write.format("rowlease").options(**options).mode("append").save()


def by_stream(spark: Any, name: str, dsn: str, folder: Path) -> None:
    (folder / name).mkdir()
    (folder / name / "a.json").write_text("".join(f'{{"id": {n}}}\n' for n in range(1000)))
    frame = spark.readStream.schema("id bigint").json((folder / name).as_uri())
    options = {"dsn": dsn, "queue": "default", "kind": "k", "stream": "x"}
    stream = frame.repartition(2).select(payload(name)).writeStream.format("rowlease")
    stream = stream.options(**options).option("checkpointLocation", str(folder / f"{name}.state"))
    stream.trigger(availableNow=True).start().awaitTermination()


class Driver:
    """A driver of 1,000 rows in two parts: one part is committed, the other waits to be let go."""

    def __init__(self, spark: Any, name: str, dsn: str, folder: Path) -> None:
        self._spark = spark
        self._name = name
        self._folder = folder
        self._steps = {AFTER: threading.Event(), BEFORE: threading.Event()}
        self._let_go = threading.Event()
        acts: dict[str, tuple[int, Act]] = {AFTER: (1, self._committed), BEFORE: (2, self._held)}
        self.wire = Meddler(dsn, acts)

    def _committed(self, _: int) -> bool:
        self._steps[AFTER].set()
        return True

    def _held(self, _: int) -> bool:
        self._steps[BEFORE].set()
        return self._let_go.wait(PATIENCE)

    def start(self, thread: ThreadPoolExecutor, write: Write) -> Future[None]:
        """Begin to write, and come to where one part of two is committed."""

        def run() -> None:
            # A thread has no session of its own, and only a session knows the format.
            sessions = self._spark._jvm.org.apache.spark.sql.classic.SparkSession
            sessions.setActiveSession(self._spark._jsparkSession)
            write(self._spark, self._name, self.wire.dsn, self._folder)

        written = thread.submit(run)
        for step in self._steps.values():
            assert step.wait(PATIENCE), written
        return written

    def go_on(self) -> None:
        self._let_go.set()


@pytest.mark.parametrize("write", [by_jdbc, by_copy, by_stream])
@pytest.mark.timeout(240)
def test_the_later_of_two_drivers_enqueues_its_rows_and_the_other_gets_load_lost(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path, write: Write
) -> None:
    register(spark)
    slow, restarted = (Driver(spark, name, dsn, tmp_path) for name in ("slow", "restarted"))
    with slow.wire, restarted.wire, ThreadPoolExecutor(2) as threads:
        first = slow.start(threads, write)
        second = restarted.start(threads, write)
        slow.go_on()
        failure = first.exception(PATIENCE)
        restarted.go_on()
        second.result(PATIENCE)
    found = sql("select payload ->> 'by', count(*), count(distinct payload ->> 'id')"
                " from rowlease.requests group by 1")  # fmt: skip
    assert found == [("restarted", 1000, 1000)]
    assert 'load "x/0" was taken over by' in str(failure)
