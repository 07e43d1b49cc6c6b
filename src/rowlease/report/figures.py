"""The figures of the report, which Spark SQL computes from the times of requests.

The wait of a request begins at its requested time or its due time, whichever is later, and ends
when it was last leased. A retry has a new due time. The run begins when the request was last leased
and ends when it was completed. Times are rounded to 0.1 ms and equal times are counted together, so
that many millions fit into memory. Percentiles of the rounded times are exact, and interpolated
like PostgreSQL's percentile_cont.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

PERCENTILES = (0.5, 0.95, 0.99)
#: The unit in microseconds to which times are rounded.
ROUNDED_TO_MICROS = 100
#: The possible lengths in seconds of a step of the time axis.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400)
#: The maximum number of steps on the time axis.
MAX_STEPS = 240
#: The maximum number of rows in the list of errors. The most frequent errors come first.
MAX_ERRORS = 50


class Work(NamedTuple):
    """The outcomes and times of the requests of one queue and priority.

    Attributes:
        complete, cancelled, dead: the number of requests with this outcome in the window.
        retried: the number of complete requests that needed more than one attempt.
        rate: the number of complete requests, divided by the seconds between the first and the last
            completion of the whole report (all queues and priorities); None if that time is zero.
        wait_p50 to wait_max: percentiles and the maximum of the waits of complete requests, in
            seconds; None if no request was completed.
        run_p50 to run_max: the same for the runs.
    """

    queue: str
    priority: int
    complete: int
    cancelled: int
    dead: int
    retried: int
    rate: float | None
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    wait_max: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None
    run_max: float | None


class Failures(NamedTuple):
    """The requests of one queue and kind whose last errors have the same `error`.

    Attributes:
        error: the name of the exception, or the start of the message.
        dead: the number of dead letters.
        again: the number of requests that will be retried.
        complete: the number of requests that a later attempt completed.
        example: the message of the latest request.
        last_time: the time when the latest request ended or was last leased.
    """

    queue: str
    kind: str
    error: str
    dead: int
    again: int
    complete: int
    example: str
    last_time: datetime

    @property
    def total(self) -> int:
        """The number of requests with this error."""
        return self.dead + self.again + self.complete


class Throughput(NamedTuple):
    """The number of requests of a queue that were completed in one step of the time axis."""

    queue: str
    start: datetime
    complete: int


class Figures(NamedTuple):
    """All figures of the report.

    Attributes:
        since, until: the window, by the database's clock.
        first, last: the first and the last completion in the window.
        step_seconds: the length of each step in `steps`.
        work: the outcomes, by queue, the most urgent priority first.
        failures: the errors, the most frequent first.
    """

    since: datetime
    until: datetime
    first: datetime | None
    last: datetime | None
    step_seconds: int
    work: list[Work]
    failures: list[Failures]
    steps: list[Throughput]

    @property
    def complete(self) -> int:
        """The number of requests completed in the window."""
        return sum(row.complete for row in self.work)

    @property
    def rate(self) -> float | None:
        """Requests completed per second, between the first and the last completion."""
        return per_second(self.complete, self.first, self.last)


def figures(
    spark: Any, dsn: str, queues: Sequence[str], since: datetime, until: datetime, partitions: int
) -> Figures:
    """Compute the figures of the requests that ended, or were last leased, in the window.

    Args:
        queues: the names of the queues; empty means all queues.
        partitions: the number of ranges into which Spark divides the rows that it reads.
    """
    from pyspark.sql import functions as F

    ended = requests(spark, dsn, queues, since, until, partitions).persist()
    try:
        is_complete = F.col("status") == "Complete"
        span = ended.where(is_complete).agg(
            F.min("at").alias("first"), F.max("at").alias("last")
        ).first()  # fmt: skip
        first, last = from_micros(span["first"]), from_micros(span["last"])
        step = step_of(first, last)
        return Figures(
            since,
            until,
            first,
            last,
            step,
            work(ended, first, last),
            failures(ended),
            steps(ended.where(is_complete), step),
        )
    finally:
        ended.unpersist()


def requests(
    spark: Any, dsn: str, queues: Sequence[str], since: datetime, until: datetime, partitions: int
) -> Any:
    """The requests of the history and of the queue, with their waits and runs."""
    from pyspark.sql import functions as F

    from rowlease.spark.jdbc_reader import read_times

    both = read_times(spark, dsn, queues, since, until, partitions)

    def grains(start: Any, end: Any) -> Any:
        passed = F.greatest(F.unix_micros(end) - F.unix_micros(start), F.lit(0))
        return F.round(passed / ROUNDED_TO_MICROS).cast("bigint")

    could_start = F.greatest("requested_time", "due_time")
    return both.select(
        F.col("queue_name").alias("queue"),
        "kind",
        "status",
        "priority",
        "error",
        F.unix_micros(F.coalesce("completion_time", "locked_time")).alias("at"),
        (F.col("num_attempts") > 1).alias("is_retried"),
        grains(could_start, F.col("locked_time")).alias("wait"),
        grains(F.col("locked_time"), F.col("completion_time")).alias("run"),
    )


def work(ended: Any, first: datetime | None, last: datetime | None) -> list[Work]:
    """The outcomes, waits and runs of the requests, by queue and priority."""
    from pyspark.sql import functions as F

    def count(condition: Any) -> Any:
        return F.count(F.when(condition, 1))

    status = F.col("status")
    points = F.array(*(F.lit(point) for point in PERCENTILES))
    times = []
    for name in ("wait", "run"):
        complete = F.when(status == "Complete", F.col(name))
        times += [F.percentile(complete, points).alias(name), F.max(complete).alias(f"{name}_max")]
    found = (
        ended.where(status.isin("Complete", "Cancelled", "Failed"))
        .groupBy("queue", "priority")
        .agg(
            count(status == "Complete").alias("complete"),
            count(status == "Cancelled").alias("cancelled"),
            count(status == "Failed").alias("dead"),
            count((status == "Complete") & F.col("is_retried")).alias("retried"),
            *times,
        )
        .orderBy("queue", F.desc("priority"))
        .collect()
    )
    nothing = [None] * len(PERCENTILES)
    return [
        Work._make(
            [
                *row[:6],
                per_second(row.complete, first, last),
                *seconds([*(row.wait or nothing), row.wait_max]),
                *seconds([*(row.run or nothing), row.run_max]),
            ]
        )
        for row in found
    ]


def failures(ended: Any) -> list[Failures]:
    """The requests that have a last error, by queue, kind and error."""
    from pyspark.sql import functions as F

    # Group exceptions by name, and other messages by their first characters without numbers.
    name = F.regexp_extract("error", r"^([A-Za-z_][\w.]*)(:\s|$)", 1)
    words = F.regexp_replace(F.substring("error", 1, 60), r"\d+", "#")
    lost = F.col("error").contains("the lease ran out; ")
    error = F.when(lost, "(lease ran out)").when(name != "", name).otherwise(words)
    status = F.col("status")
    is_over = status.isin("Failed", "Complete")
    found = (
        ended.where(F.col("error").isNotNull() & (status != "Cancelled"))
        .groupBy("queue", "kind", error.alias("what"))
        .agg(
            F.count(F.when(status == "Failed", 1)).alias("dead"),
            F.count(F.when(~is_over, 1)).alias("again"),
            F.count(F.when(status == "Complete", 1)).alias("complete"),
            F.max_by("error", "at").alias("example"),
            F.max("at").alias("last_time"),
        )
        .orderBy(F.desc(F.expr("dead + again + complete")), "queue", "kind", "what")
        .limit(MAX_ERRORS)
        .collect()
    )
    return [Failures._make([*row[:-1], from_micros(row.last_time)]) for row in found]


def steps(complete: Any, step: int) -> list[Throughput]:
    """The completions over time. Steps without completions are left out."""
    from pyspark.sql import functions as F

    start = F.expr(f"at div {step * 1_000_000} * {step * 1_000_000}").alias("start")
    found = complete.groupBy("queue", start).count().orderBy("start", "queue").collect()
    return [Throughput._make([row.queue, from_micros(row.start), row["count"]]) for row in found]


def step_of(first: datetime | None, last: datetime | None) -> int:
    """The shortest step, in seconds, that gives at most MOST_STEPS steps, or else the longest."""
    span = (last - first).total_seconds() if first and last else 0.0
    return next((step for step in STEPS if span / step <= MAX_STEPS), STEPS[-1])


def per_second(count: int, first: datetime | None, last: datetime | None) -> float | None:
    """`count` divided by the seconds between `first` and `last`; None if no time elapsed."""
    if not first or not last or last <= first:
        return None
    return count / ((last - first) / timedelta(seconds=1))


def from_micros(micros: int | None) -> datetime | None:
    """Microseconds since 1970 as a time in UTC. (Spark would use this machine's time zone.)"""
    return (
        None if micros is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)
    )


def seconds(grains: Sequence[float | None]) -> list[float | None]:
    """Times in units of GRAIN, as seconds."""
    return [None if each is None else each * ROUNDED_TO_MICROS / 1e6 for each in grains]
