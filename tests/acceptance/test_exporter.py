"""`rowlease exporter`, and the metrics of a worker, as Prometheus reads them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import rowlease
from rowlease.cli import cli
from tests.unit.test_metrics import Samples, samples

Sql = Callable[..., list[tuple[Any, ...]]]
SOURCE = Path(rowlease.__file__).parents[1]


@contextmanager
def running(dsn: str, *command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command until it logs an address, which is given with its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlease", *command],
        env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        for line in process.stderr:
            if found := re.search(r"http://[\d.:]+", line):
                yield process, found[0]
                break
        else:
            pytest.fail("the command ended before it listened")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def scraped(address: str) -> Samples:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        return samples(answer.read().decode())


def test_an_exporter_serves_the_metrics_of_a_database(dsn: str, sql: Sql) -> None:
    sql("select rowlease.enqueue('default', 'a', p_priority => 3) from generate_series(1, 5)")
    sql("select rowlease.dequeue('one', '{default}', 2)")
    with running(dsn, "exporter", "--listen", "0", "--cache", "0s") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        found = scraped(address)
        assert found["rowlease_up", ()] == 1
        assert found["rowlease_requests", ("3", "default", "Pending")] == 3
        assert found["rowlease_requests", ("3", "default", "Processing")] == 2
        assert found["rowlease_demand", ("default",)] == 5
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_once_prints_the_metrics_for_a_reader(dsn: str, sql: Sql, reader_dsn: str) -> None:
    done = CliRunner().invoke(cli, ["exporter", "--once", "--dsn", reader_dsn])
    assert done.exit_code == 0, done.output
    assert samples(done.stdout)["rowlease_up", ()] == 1


@pytest.fixture
def reader_dsn(dsn: str, sql: Sql) -> Iterator[str]:
    """A user with the role rowlease_reader and nothing else."""
    sql("drop role if exists rowlease_test_exporter")
    sql("create role rowlease_test_exporter login password 'x' in role rowlease_reader")
    url = sa.make_url(dsn).set(username="rowlease_test_exporter", password="x")
    yield url.render_as_string(hide_password=False)
    sql("drop role rowlease_test_exporter")


def test_an_exporter_that_reaches_no_database_says_so(dsn: str) -> None:
    nowhere = "postgresql://u:secret@127.0.0.1:1/x"
    done = CliRunner().invoke(cli, ["exporter", "--once", "--dsn", nowhere])
    assert done.exit_code == 1
    with running(nowhere, "exporter", "--listen", "0") as (_, address):
        assert scraped(address)["rowlease_up", ()] == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_a_worker_serves_its_metrics_beside_its_probes(
    dsn: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    (tmp_path / "counted_tasks.py").write_text(
        "from rowlease import task\n\n@task\ndef double(x: int) -> int:\n    return 2 * x\n"
    )
    sql("""select rowlease.enqueue('default', 'double', '{"x": 1}') from generate_series(1, 20)""")
    command = ("worker", "counted_tasks", "--executor", "thread", "--health", "0")
    monkeypatch.chdir(tmp_path)
    with running(dsn, *command, "--processes", str(processes)) as (_, address):
        while True:  # until all are finished and reported
            found = scraped(address)
            labels = ("double", "complete", "default")
            if found.get(("rowlease_worker_outcomes_total", labels)) == 20:
                break
        assert found["rowlease_worker_run_seconds_count", ("double", "default")] == 20
        assert found["rowlease_worker_slots", ()] > 0
        assert urllib.request.urlopen(f"{address}/startup", timeout=60).status == 200
