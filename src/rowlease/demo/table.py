"""Any table as requests: workers return each row as they received it, and Spark compares values.

The payload is JSON as `rowlease.spark.enqueue` writes it. Two types have no exact JSON that a task
without annotations can keep, and become text: decimals, and the keys of maps.
"""

from __future__ import annotations

from typing import Any

from rowlease.demo.job import Job
from rowlease.demo.source import Input
from rowlease.errors import ConfigError
from rowlease.spark.columns import AS_JSON

#: The column with the payload, beside the columns of the table.
PAYLOAD = "rowlease.demo.payload"


def table_job(spark: Any, source: Input, priority: str | None) -> Job:
    """A request for each row of a table.

    Args:
        priority: the name of a column, or an SQL expression of columns; None means 0.

    Raises:
        ConfigError: Spark cannot read a column.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        table = spark.read.parquet(str(source.path))
        row = F.col("row").cast(text_type(table.schema["row"].dataType)).alias("row")
        rows = table.select("row.*", F.struct("row_id", row).alias(PAYLOAD))
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"Spark cannot read the input {source.name}: {reason}") from error
    results = rows.select(F.col(f"`{PAYLOAD}`").alias("written"))
    written_type = results.schema["written"].dataType

    def comparable(result: Any) -> Any:
        return F.to_json(F.from_json(result, written_type, AS_JSON), AS_JSON)

    return Job(
        kind="row",
        rows=rows,
        payload=PAYLOAD,
        priority=priority if priority in (None, *rows.columns) else F.expr(priority),
        labels={},
        expected=results.select("written.row_id", F.to_json("written", AS_JSON).alias("result")),
        comparable=comparable,
    )


def text_type(given: Any) -> Any:
    """The type with text in place of decimals and of the keys of maps, at every depth."""
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        MapType,
        StringType,
        StructField,
        StructType,
    )

    if isinstance(given, DecimalType):
        return StringType()
    if isinstance(given, ArrayType):
        return ArrayType(text_type(given.elementType), given.containsNull)
    if isinstance(given, MapType):
        return MapType(StringType(), text_type(given.valueType), given.valueContainsNull)
    if isinstance(given, StructType):
        return StructType(
            [StructField(each.name, text_type(each.dataType), each.nullable) for each in given]
        )
    return given
