"""A signal handler that raises within a call: no lock stays locked, and no answer goes astray.

`ROWLEASE_STRESS_SIGNALS=10 pytest tests/stress` is the long form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rowlease.store.pool import MAX_OPEN

Sql = Callable[..., list[tuple[Any, ...]]]

LONG = os.environ.get("ROWLEASE_STRESS_SIGNALS")
RUNS = int(LONG or "1")
CALLS = 3000 if LONG else 1000
SEED = int(os.environ.get("ROWLEASE_STRESS_SEED", "1"))


@pytest.mark.parametrize("run", range(RUNS))
def test_an_interrupted_call_leaves_nothing_locked_and_mixes_up_nothing(
    dsn: str, sql: Sql, run: int
) -> None:
    program = [sys.executable, "-m", "tests.stress.interrupted"]
    done = subprocess.run(
        [*program, dsn, str(CALLS), str(SEED + run)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["errors"] == []
    assert report["places"] == MAX_OPEN
    assert report["last"] == "Cancelled"
    assert report["interrupted"] > CALLS / 20
    rows = sql("select payload ->> 'number', request_id from rowlease.queue where kind = 'work'")
    found: dict[str, int] = dict(rows)
    assert len(found) == len(rows), "a call enqueued twice"
    assert {payload: found.get(payload) for payload in report["done"]} == report["done"]
    print(  # noqa: T201
        f"{CALLS} calls, {report['interrupted']} interrupted, {len(report['done'])} acknowledged: "
        f"0 foreign, 0 doubled, {MAX_OPEN} places"
    )
