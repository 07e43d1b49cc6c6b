"""What cannot work is refused before anything is begun. No JVM is needed here."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rowlease.errors import ConfigError
from rowlease.spark import enqueue, read_requests, work
from rowlease.spark.columns import ColumnKeywords, RequestColumns

DSN = "postgresql://127.0.0.1:1/nowhere"


class Remote:
    """A session, and a frame, of Spark Connect."""

    sparkSession: Any


Remote.__module__ = "pyspark.sql.connect.session"
Remote.sparkSession = Remote()


@pytest.mark.parametrize(
    "call",
    [
        lambda spark: enqueue(spark, DSN, queue="q", kind="k"),
        lambda spark: read_requests(spark, DSN),
        lambda spark: work(spark, "app", dsn=DSN),
    ],
    ids=["enqueue", "read_requests", "work"],
)
def test_a_session_of_spark_connect_is_told_what_works_there(call: Any) -> None:
    with pytest.raises(ConfigError, match=r"Spark Connect.*format\(\"rowlease\"\)"):
        call(Remote())


def test_the_keywords_of_columns_are_those_of_request_columns() -> None:
    names = [field.name for field in dataclasses.fields(RequestColumns)]
    assert list(ColumnKeywords.__annotations__) == names
