"""Reads the finished requests with Spark, and compares their results with Spark's own."""

from __future__ import annotations

from typing import Any, NamedTuple

from rowlease.demo.job import QUEUE, RESULT, RESULT_FIELDS
from rowlease.spark import read_requests

#: The maximum number of wrong rows that a report lists.
NAMED = 5
PERCENTILES = (0.5, 0.95, 0.99)


class Compared(NamedTuple):
    """The numbers of differences between the finished requests and the expected results.

    Attributes:
        missing: the number of flights without a finished request.
        extra: the number of finished requests whose row id is not that of a flight.
        doubled: the number of finished requests for flights that already have one.
        wrong: the number of flights with a result that differs from the expected JSON text.
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


class CarrierRow(NamedTuple):
    """The sums of one airline's results.

    Attributes:
        agrees: true if Spark computes the same sums from the input.
    """

    carrier: str
    flights: int
    cancelled: int
    late: int
    gained: int
    miles: int
    dark_seconds: int
    agrees: bool


class Wait(NamedTuple):
    """Percentiles of the seconds from due time to lease, for the requests of a priority."""

    priority: int
    requests: int
    p50: float
    p95: float
    p99: float


def finished(spark: Any, dsn: str, load_id: str) -> Any:
    """The finished requests of a load, with the columns row_id, carrier, priority, wait, result.

    The wait is in seconds, and the result is JSON text.
    """
    from pyspark.sql import functions as F

    payload = F.from_json("payload", "row_id bigint, carrier string")
    return (
        read_requests(
            spark,
            dsn,
            queue=QUEUE,
            load_id=load_id,
            status="Complete",
            columns=("priority", "due_time", "locked_time", "payload", "result"),
        )
        .withColumn("payload", payload)
        .select(
            "payload.row_id",
            "payload.carrier",
            "priority",
            (F.col("locked_time").cast("double") - F.col("due_time").cast("double")).alias("wait"),
            "result",
        )
    )


def compare(expected: Any, found: Any) -> Compared:
    """Compare each finished request with its expected result.

    Args:
        expected: a DataFrame with a row for each flight and the fields of the task's result.
        found: the DataFrame that `finished` returns.
    """
    from pyspark.sql import functions as F

    # Compare JSON text: the worker's JSON is compact, has the fields in this order, and has no
    # fractions.
    text = F.to_json(F.struct(*RESULT_FIELDS), {"ignoreNullFields": "false"})
    want = expected.select(F.col("row_id").alias("want_id"), text.alias("want"))
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
        named = bad.orderBy("row_id").limit(NAMED).collect() if any(counts) else []
    finally:
        bad.unpersist()
    missing, extra, doubled, wrong = counts
    return Compared(missing, extra, doubled, wrong, tuple(row.row_id for row in named))


def by_carrier(expected: Any, flights: Any, found: Any) -> list[CarrierRow]:
    """The sums of the workers' results by airline, compared with Spark's sums of the input."""
    from pyspark.sql import functions as F

    def summed(frame: Any) -> dict[str, tuple[int, int, int, int, int, int]]:
        rows = frame.groupBy("carrier").agg(
            F.count(F.lit(1)),
            F.count_if(F.col("status") == "cancelled"),
            F.count_if("late"),
            *(F.coalesce(F.sum(name), F.lit(0)) for name in ("gained", "miles", "dark_seconds")),
        )
        return {row[0]: tuple(row[1:]) for row in rows.collect()}

    of_workers = summed(
        found.select("carrier", F.from_json("result", RESULT).alias("result")).select(
            "carrier", "result.*"
        )
    )
    of_spark = summed(expected.join(flights.select("row_id", "carrier"), "row_id"))
    rows = []
    for carrier in of_workers.keys() | of_spark.keys():
        sums = of_workers.get(carrier, (0, 0, 0, 0, 0, 0))
        rows.append(CarrierRow(carrier, *sums, sums == of_spark.get(carrier)))
    return sorted(rows, key=lambda row: (-row.flights, row.carrier or ""))


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
