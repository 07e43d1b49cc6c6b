"""What cannot work is refused before anything is begun. No JVM is needed here."""

from __future__ import annotations

import dataclasses

import pytest

from rowlease.errors import ConfigError
from rowlease.spark import work
from rowlease.spark.columns import ColumnKeywords, RequestColumns

DSN = "postgresql://127.0.0.1:1/nowhere"


class Remote:
    """A session of Spark Connect."""


Remote.__module__ = "pyspark.sql.connect.session"


def test_a_session_of_spark_connect_runs_no_workers() -> None:
    with pytest.raises(ConfigError, match=r"Spark Connect, which cannot run workers"):
        work(Remote(), "app", dsn=DSN)


def test_the_keywords_of_columns_are_those_of_request_columns() -> None:
    names = [field.name for field in dataclasses.fields(RequestColumns)]
    assert list(ColumnKeywords.__annotations__) == names
