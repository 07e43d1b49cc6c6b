"""A Spark job that is cancelled at a random moment enqueues nothing and leaves nothing.

The long form, `ROWLEASE_STRESS_CANCELS=50`, cancels 50 jobs of each writer.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from rowlease.errors import RowleaseError
from rowlease.spark import enqueue, register
from rowlease.store import Store
from tests.spark.clusters import until

Sql = Callable[..., list[tuple[Any, ...]]]

#: Jobs of each writer that are cancelled.
CANCELS = int(os.environ.get("ROWLEASE_STRESS_CANCELS", "2"))
SEED = int(os.environ.get("ROWLEASE_STRESS_SEED", "0")) or random.randrange(2**32)
ROWS = 60_000


def by_jdbc(frame: Any, dsn: str, load_id: str) -> None:
    enqueue(frame, dsn, queue="default", kind="k", load_id=load_id, payload="payload", by="jdbc")


def by_copy(frame: Any, dsn: str, load_id: str) -> None:
    enqueue(frame, dsn, queue="default", kind="k", load_id=load_id, payload="payload", by="copy")


def by_format(frame: Any, dsn: str, load_id: str) -> None:
    given = {"dsn": dsn, "queue": "default", "kind": "k", "load_id": load_id}
    frame.write.format("rowlease").options(**given).mode("append").save()


@pytest.mark.parametrize("way", [by_jdbc, by_copy, by_format])
def test_a_cancelled_job_leaves_nothing(
    way: Callable[[Any, str, str], None], spark: Any, dsn: str, store: Store, sql: Sql
) -> None:
    random.seed(SEED)
    rows = spark.range(0, ROWS, 1, 4).select(F.to_json(F.struct("id")).alias("payload"))
    context = spark.sparkContext

    def written() -> int:
        """How many rows were given an id, committed or not."""
        ((last,),) = sql("select last_value from rowlease.queue_request_id_seq")
        return int(last)

    def left() -> int:
        store.maintain()
        ((rows, parts),) = sql(
            "select (select count(*) from rowlease.lane), (select count(*) from rowlease.lane_part)"
        )
        return int(rows) + int(parts)

    def run(load_id: str, errors: list[Exception]) -> None:
        register(spark)
        context.addJobTag(load_id)
        try:
            way(rows, dsn, load_id)
        except Exception as error:
            errors.append(error)

    def cancelled(load_id: str) -> bool:
        """Begin a load, and cancel its job at a random moment; False if the job was faster."""
        errors = list[Exception]()
        job = threading.Thread(target=run, args=[load_id, errors])
        enough = written() + random.randrange(1, ROWS)
        job.start()
        until(lambda: written() >= enough or not job.is_alive(), "rows are written")
        context.cancelJobsWithTag(load_id)
        job.join()
        ((status,),) = sql("select status from rowlease.loads where load_id = %s", [load_id])
        if status == "Promoted":
            sql("truncate rowlease.lane, rowlease.lane_part")
            store.recount()
            return False
        assert status == "Ended"
        assert len(errors) == 1
        assert way is by_format or isinstance(errors[0], RowleaseError)
        return True

    longest, count = 0.0, 0
    for number in range(CANCELS):
        if not cancelled(f"load{number}"):
            continue
        count += 1
        began = time.monotonic()
        until(lambda: not context.statusTracker().getActiveJobsIds(), "no job is left")
        until(lambda: left() == 0, "no row is left")
        longest = max(longest, time.monotonic() - began)
        assert sql("select count(*) from rowlease.requests") == [(0,)]
        assert store.depth() == []
    way(rows, dsn, "whole")
    assert sql("select count(*) from rowlease.requests") == [(ROWS,)]
    assert sql("select count(*) from rowlease.lane") == [(ROWS,)]
    print(  # noqa: T201 - figures of the long form
        f"{way.__name__}: {count} of {CANCELS} jobs cancelled (seed {SEED}), 0 rows run, "
        f"0 rows left after at most {longest:.1f} s"
    )
