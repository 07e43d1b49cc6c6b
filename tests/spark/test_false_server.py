"""A program that takes the port of a database gets no password from Spark's JDBC driver."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from rowlease.spark.jdbc import connection_options
from tests.acceptance.test_tls import PASSWORD, false_server


@pytest.mark.parametrize(
    ("options", "is_told"), [("?require_auth=scram-sha-256", False), ("", True)]
)
def test_a_false_server_is_told_no_password(spark: Any, options: str, is_told: bool) -> None:
    with false_server(None) as (port, heard):
        dsn = f"postgresql://u:{PASSWORD}@127.0.0.1:{port}/d{options}"
        reader = spark.read.format("jdbc").options(**connection_options(dsn))
        with pytest.raises(PySparkException):
            reader.option("dbtable", "x").load()
    assert any(PASSWORD.encode() in each for each in heard) is is_told
