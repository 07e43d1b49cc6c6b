"""What cannot work is refused before anything is begun. No JVM is needed here."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import runpy

import pyspark.version
import pytest

import rowlease.spark
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


@pytest.mark.parametrize("name", ["batch_sink", "register"])
@pytest.mark.parametrize("version", ["3.5.9", "4.0.5"])
def test_what_needs_data_sources_says_so(
    name: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowlease.spark, "PYSPARK", version)
    with pytest.raises(ConfigError, match=rf"^{name} and format.* need PySpark 4.1 .*{version}"):
        getattr(rowlease.spark, name)
    assert callable(rowlease.spark.enqueue)


def test_a_spark_that_pip_has_not_installed_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own installation puts PySpark on the path, without the metadata of a package."""

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = runpy.run_path(rowlease.spark.__file__)
    assert found["PYSPARK"] == pyspark.version.__version__


def test_an_older_spark_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.version, "__version__", "3.4.4")
    with pytest.raises(ConfigError, match=r"^rowlease needs PySpark 3.5 or newer; this is 3.4.4$"):
        runpy.run_path(rowlease.spark.__file__)
