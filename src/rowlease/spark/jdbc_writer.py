"""Writes the rows of a load over JDBC, which needs no Python on the executors.

Nobody tells which attempt of a task counts, so all attempts write the same part. Of several, only
the first one that commits its rows counts.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from rowlease.spark.columns import in_the_lane
from rowlease.spark.jdbc import database_errors, writing_options
from rowlease.spark.load_progress import reported
from rowlease.spark.parts import ATTEMPT_BITS, PART_BITS
from rowlease.spark.promotion import NOT_STAGED, Load, Staged
from rowlease.store import Store, engine_of

#: The number of rows in a batch. The JDBC driver rewrites a batch to one INSERT, which is fast.
BATCH_SIZE = 10_000


def write_by_jdbc(rows: Any, load: Load, store: Store | None) -> Staged:
    """Write rows with `request_columns`, and count them. Report their number if there is a store.

    Raises:
        RowleaseError: nothing was staged, or nothing that counts; see `enqueue`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    run = load.run
    number = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    partition = F.spark_partition_id().cast("bigint")
    rows = rows.select(
        F.lit(run.run_number).cast("bigint").alias("run_number"),
        (partition * (1 << ATTEMPT_BITS + PART_BITS)).alias("part"),
        F.when(number == 0, True).alias("ends_part"),
        *rows.columns,
    )
    counts = [F.count(F.lit(1)).alias("num_rows")]
    if "priority" in rows.columns:
        counts.append(F.count_if(F.col("priority") > run.max_priority).alias("num_clamped"))
    counted = Observation(f"rowlease load {load.load_id}")
    context = rows.sparkSession.sparkContext
    with (
        reported(context, store, load.load_id, run.run_number) if store else nullcontext(),
        database_errors(load.dsn, NOT_STAGED),
    ):
        filled = in_the_lane(rows.observe(counted, *counts), load.kind, run)
        table, written = engine_of(load.dsn).jdbc_frame("load_inbox", filled)
        written.write.format("jdbc").options(
            **writing_options(load.dsn), dbtable=table, batchsize=BATCH_SIZE
        ).mode("append").save()
    found = counted.get
    return Staged(load.load_id, run.run_number, found["num_rows"], found.get("num_clamped", 0))
