"""A worker whose stderr is not read: requests finish, signals work, exit codes stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rowlease.client.client import Client
from tests.acceptance.test_supervisor import PATIENCE, SOURCE

Sql = Callable[..., list[tuple[Any, ...]]]

JOBS = """
from rowlease import task

@task
def ok(): pass

@task
def fail(): raise ValueError("no luck today")

@task
def through(gate):
    with open(gate, "w"): pass
"""


@contextmanager
def working(dsn: str, folder: Path, stderr: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`rowlease worker` with this stderr, which it alone keeps open."""
    (folder / "jobs.py").write_text(JOBS)
    with os.fdopen(stderr, "wb") as given:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowlease", "worker", "jobs", *options],
            cwd=folder,
            env={**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(SOURCE)},
            stdout=subprocess.PIPE,
            stderr=given,
            text=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


def fill(pipe: int) -> int:
    """Write until nothing fits into the pipe; how many bytes did?"""
    os.set_blocking(pipe, False)
    size = 0
    with suppress(BlockingIOError):
        while True:
            size += os.write(pipe, b"." * 4096)
    with suppress(BlockingIOError):
        while True:
            size += os.write(pipe, b".")
    os.set_blocking(pipe, True)
    return size


@pytest.fixture
def full() -> Iterator[tuple[int, int]]:
    """A pipe that takes nothing: its two ends. The test gives the second away."""
    reader, writer = os.pipe()
    fill(writer)
    yield reader, writer
    os.close(reader)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe: a reader blocks until a task has opened it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def run_some(dsn: str, gate: Path) -> None:
    """Enqueue requests, and wait until the last of them runs."""
    with Client(dsn) as client:
        for kind in ("fail", "ok", "fail", "ok"):
            client.enqueue_untyped(kind, max_attempts=1)
        client.enqueue_untyped("through", {"gate": str(gate)}, priority=0)
    gate.read_text()


@pytest.mark.parametrize("options", [(), ("--processes", "2"), ("--executor", "thread")], ids=str)
def test_requests_finish_while_the_log_is_not_read(
    options: tuple[str, ...], dsn: str, tmp_path: Path, full: tuple[int, int], gate: Path, sql: Sql
) -> None:
    with working(dsn, tmp_path, full[1], *options) as process:
        run_some(dsn, gate)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out[:21]) == (0, "3 finished, 2 failed,")
    assert sql("select status, count(*) from rowlease.requests group by 1 order by 1") == [
        ("Complete", 3),
        ("Failed", 2),
    ]


def test_lines_logged_meanwhile_are_there_when_the_log_is_read(
    dsn: str, tmp_path: Path, gate: Path
) -> None:
    reader, writer = os.pipe()
    filled = fill(writer)
    with os.fdopen(reader, "rb") as log, working(dsn, tmp_path, writer) as process:
        run_some(dsn, gate)
        log.read(filled)
        process.send_signal(signal.SIGTERM)
        printed = log.read().decode()
        assert process.wait(PATIENCE) == 0
    assert (
        printed.index("worker started")
        < printed.index("no luck today")
        < printed.index("worker stopped")
    )
    assert "dropped" not in printed


@pytest.mark.parametrize("stream", ["stderr", "both"])
def test_a_log_whose_reader_is_gone_is_no_failure(
    stream: str, dsn: str, tmp_path: Path, gate: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with working(dsn, tmp_path, writer) as process:
        assert process.stdout
        run_some(dsn, gate)
        if stream == "both":
            process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_an_error_keeps_its_exit_code_if_stderr_is_not_read(
    dsn: str, tmp_path: Path, full: tuple[int, int]
) -> None:
    with working(dsn, tmp_path, full[1], "--queue", "nowhere") as process:
        assert process.wait(PATIENCE) == 2
