"""Reads the finished requests with Spark, and compares their results with Spark's own."""

from __future__ import annotations

from typing import Any, NamedTuple

from rowlease.demo.job import QUEUE, Job
from rowlease.report.figures import PERCENTILES
from rowlease.spark import read_requests

#: The maximum number of wrong rows that a report lists.
MAX_LISTED_ROWS = 5


class Compared(NamedTuple):
    """The numbers of differences between the finished requests and the expected results.

    Attributes:
        missing: the number of rows without a finished request.
        extra: the number of finished requests whose row id is not that of a row.
        doubled: the number of finished requests for rows that already have one.
        wrong: the number of rows with a result that differs from the expected text.
        examples: the row ids of some differences.
    """

    missing: int
    extra: int
    doubled: int
    wrong: int
    examples: tuple[int | None, ...]

    @property
    def differ(self) -> int:
        """The number of all differences."""
        return self.missing + self.extra + self.doubled + self.wrong


class Wait(NamedTuple):
    """Percentiles of the seconds from due time to lease, for the requests of a priority."""

    priority: int
    requests: int
    p50: float
    p95: float
    p99: float


def finished(spark: Any, dsn: str, job: Job, load_id: str) -> Any:
    """The finished requests of a load, with the columns row_id, priority, wait, result.

    The wait is in seconds, and the result is text that can be compared.
    """
    from pyspark.sql import functions as F

    return read_requests(
        spark,
        dsn,
        queue=QUEUE,
        load_id=load_id,
        status="Complete",
        columns=("priority", "due_time", "locked_time", "payload", "result"),
    ).select(
        F.from_json("payload", "row_id bigint")["row_id"].alias("row_id"),
        "priority",
        (F.col("locked_time").cast("double") - F.col("due_time").cast("double")).alias("wait"),
        job.comparable(F.col("result")).alias("result"),
    )


def compare(expected: Any, found: Any) -> Compared:
    """Compare each finished request with its expected result.

    Args:
        expected: a DataFrame with the columns row_id and result.
        found: the DataFrame that `finished` returns.
    """
    from pyspark.sql import functions as F

    want = expected.select(F.col("row_id").alias("want_id"), F.col("result").alias("want"))
    got = found.groupBy("row_id").agg(
        F.count(F.lit(1)).alias("n"),
        F.min(F.coalesce("result", F.lit(""))).alias("least"),
        F.max(F.coalesce("result", F.lit(""))).alias("most"),
    )
    joined = want.join(got, want.want_id == got.row_id, "full").select(
        F.coalesce("want_id", "row_id").alias("row_id"),
        F.when(F.col("n").isNull(), 1).otherwise(0).alias("missing"),
        F.when(F.col("want_id").isNull(), F.col("n")).otherwise(0).alias("extra"),
        F.when(F.col("want_id").isNotNull() & (F.col("n") > 1), F.col("n") - 1)
        .otherwise(0)
        .alias("doubled"),
        F.when((F.col("least") != F.col("want")) | (F.col("most") != F.col("want")), 1)
        .otherwise(0)
        .alias("wrong"),
    )
    kinds = ("missing", "extra", "doubled", "wrong")
    bad = joined.where(" or ".join(f"{kind} > 0" for kind in kinds)).persist()
    try:
        counts = bad.agg(*(F.coalesce(F.sum(kind), F.lit(0)).alias(kind) for kind in kinds)).first()
        named = bad.orderBy("row_id").limit(MAX_LISTED_ROWS).collect() if any(counts) else []
    finally:
        bad.unpersist()
    missing, extra, doubled, wrong = counts
    return Compared(missing, extra, doubled, wrong, tuple(row.row_id for row in named))


def waits(found: Any) -> list[Wait]:
    """The waits of the requests by priority, the highest priority first."""
    from pyspark.sql import functions as F

    rows = found.groupBy("priority").agg(
        F.count(F.lit(1)), F.percentile("wait", F.array(*map(F.lit, PERCENTILES)))
    )
    return [
        Wait(priority, count, *percentiles)
        for priority, count, percentiles in sorted(rows.collect(), reverse=True)
    ]
