"""`rowlease spark-enqueue` as a program that spark-submit runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rowlease
from tests.spark.programs import run_program

Sql = Callable[..., list[tuple[Any, ...]]]


def test_the_command_runs_in_the_session_that_was_submitted(
    spark: Any, dsn: str, sql: Sql, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    program = str(Path(rowlease.__file__).with_name("__main__.py"))
    given = (f"--input={tmp_path.as_uri()}", "--format=json", "--load-id=submitted")
    ran = run_program("spark-submit", dsn, program, "spark-enqueue", "k", *given)
    # spark-submit sends both of the program's streams to its stdout.
    assert ran.stdout.endswith("2 of 2 rows enqueued into default\n"), ran.stderr
    assert sql("select payload ->> 'n' from rowlease.requests order by 1") == [("1",), ("2",)]
