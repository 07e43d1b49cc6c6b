"""A load of this release continues while the next one migrates the database."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rowlease.spark import register
from tests.releases import migrate, releases
from tests.spark.test_two_drivers import Write, by_copy, by_jdbc
from tests.stress.meddler import AFTER, Meddler

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.parametrize("write", [by_jdbc, by_copy])
def test_a_load_continues_while_the_next_release_migrates(
    write: Write, spark: Any, dsn: str, sql: Sql, repository: Path, tmp_path: Path
) -> None:
    register(spark)
    both = releases(repository, tmp_path)
    with ThreadPoolExecutor(1) as thread:
        printed: list[Future[str]] = []

        def migrated(_: int) -> bool:
            printed.append(thread.submit(migrate, both.new, dsn))
            return True

        # One part of two is committed when the migration begins.
        with Meddler(dsn, {AFTER: (1, migrated)}) as wire:
            write(spark, "a", wire.dsn, tmp_path)
        assert re.search(r"from \d{4} to schema \d{4}", printed[0].result())
    assert sql("select count(*), count(distinct payload::text) from rowlease.requests") == [
        (1000, 1000)
    ]
