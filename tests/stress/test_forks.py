"""A client that is open when its process forks: nobody gets the answer to another's call.

Servers that load a program and then fork (gunicorn --preload), Celery, Airflow and the start method
`fork` of multiprocessing do this. `ROWLEASE_STRESS_FORKS=30 pytest tests/stress` is the long form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stress.forking import CHILDREN

Sql = Callable[..., list[tuple[Any, ...]]]

LONG = os.environ.get("ROWLEASE_STRESS_FORKS")
TIMES = int(LONG or "2")
CALLS = 60
#: Seconds: the promise in a measurement, and far more beside other work.
LONGEST_CALL = 1.0 if LONG else 20.0


@pytest.mark.parametrize("how", ["os.fork", "multiprocessing", "async"])
def test_each_process_gets_the_answers_to_its_own_calls(
    dsn: str, sql: Sql, tmp_path: Path, how: str
) -> None:
    # Python warns of forks beside threads, which are the point here.
    warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    forking = [sys.executable, *warnings, "-m", "tests.stress.forking"]
    run = subprocess.run(
        [*forking, dsn, str(tmp_path), how, str(TIMES), str(CALLS)],
        capture_output=True,
        text=True,
        timeout=60 + 10 * TIMES,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    reports = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert len(reports) == TIMES * (CHILDREN + 1)
    told = {payload: name for report in reports for payload, name in report["done"].items()}
    query = "select payload ->> 'call', request_id from rowlease.queue where kind = 'work'"
    rows: dict[str, int] = dict(sql(query))
    assert len(told) == len(rows) == TIMES * (CHILDREN + 1) * CALLS
    assert told == rows
    longest = max(report["longest"] for report in reports)
    print(f"{how}: {len(told)} calls, 0 foreign, 0 lost, longest {longest:.3f} s")  # noqa: T201
    assert longest < LONGEST_CALL
