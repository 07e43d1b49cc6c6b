"""`rowlease spark-enqueue` as a program that spark-submit runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rowlease
from tests.spark.programs import run_program

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def submit(spark: Any, dsn: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command under spark-submit; the test's session has brought the JDBC driver."""
    program = Path(rowlease.__file__).with_name("__main__.py")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program("spark-submit", dsn, str(program), "spark-enqueue", *arguments)

    return run


@pytest.mark.timeout(600)  # four JVMs, one after the other
def test_the_command_runs_in_the_session_that_was_submitted(
    submit: Callable[..., subprocess.CompletedProcess[str]], sql: Sql, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    ran = submit("k", f"--input={tmp_path.as_uri()}", "--format=json", "--load-id=submitted")
    # spark-submit sends both of the program's streams to its stdout.
    assert ran.stdout.endswith("2 of 2 rows enqueued into default\n"), ran.stderr
    assert sql("select payload ->> 'n' from rowlease.requests order by 1") == [("1",), ("2",)]
    failed = submit("k", f"--input={tmp_path.as_uri()}", "--format=json", "--queue=nix")
    assert failed.returncode != 0
    assert 'queue "nix" does not exist' in failed.stdout
