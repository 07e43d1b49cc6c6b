"""Makes `format("rowlease")` known: Spark registers `DefaultSource` of each package `pyspark_*`."""

from rowlease.spark.source import RowleaseSource as DefaultSource

__all__ = ["DefaultSource"]
