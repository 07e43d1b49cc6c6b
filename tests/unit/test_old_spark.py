"""What a PySpark that is too old for it says."""

from __future__ import annotations

import importlib.metadata
import runpy

import pytest

import rowlease.spark
from rowlease.errors import ConfigError


@pytest.mark.parametrize("name", ["batch_sink", "register"])
@pytest.mark.parametrize("version", ["3.5.9", "4.0.5"])
def test_what_needs_data_sources_says_so(
    name: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rowlease.spark, "PYSPARK", version)
    with pytest.raises(ConfigError, match=rf"^{name} and format.* need PySpark 4.1 .*{version}"):
        getattr(rowlease.spark, name)
    assert callable(rowlease.spark.enqueue)


def test_an_older_spark_gets_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.4.4")
    with pytest.raises(ConfigError, match=r"^rowlease needs PySpark 3.5 or newer; this is 3.4.4$"):
        runpy.run_path(rowlease.spark.__file__)
