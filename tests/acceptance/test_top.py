"""`rowlease top` in a terminal of its own, and without one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import rowlease
from rowlease.client.client import Client
from rowlease.store import Store

SOURCE = Path(rowlease.__file__).parents[1]
PATIENCE = 60.0  # seconds; only a failing test waits that long
Sql = Callable[..., list[tuple[Any, ...]]]


def environment(dsn: str) -> dict[str, str]:
    return {**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": str(SOURCE), "TERM": "xterm"}


def run(dsn: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rowlease", "top", *options],
        env=environment(dsn),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@contextmanager
def in_a_terminal(dsn: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "rowlease", "top"],
        env=environment(dsn),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def until(terminal: int, pattern: str) -> None:
    text = ""
    deadline = time.monotonic() + PATIENCE
    while not re.search(pattern, text):
        left = deadline - time.monotonic()
        assert select.select([terminal], [], [], max(0.0, left))[0], text[-2000:]
        text += os.read(terminal, 4096).decode(errors="replace")


@pytest.fixture
def busy(dsn: str, store: Store) -> str:
    """A database in which three requests wait and a worker is alive."""
    with Client(dsn) as client:
        client.enqueue_many([rowlease.untyped_request("a", priority=5)] * 3)
    store.worker_heartbeat(
        "one", host="host-one", pid=7, version="1", queues=["default"], slots=4, busy=3
    )
    return dsn


def test_one_frame_is_printed(busy: str) -> None:
    done = run(busy, "--once")
    assert done.returncode == 0, done.stderr
    assert "3 waiting  3/4 slots busy" in done.stdout
    assert "5: 3" in done.stdout
    assert "host-one" in done.stdout
    assert "\x1b" not in done.stdout


def test_one_frame_is_data(busy: str) -> None:
    done = run(busy, "--json")
    data = json.loads(done.stdout)
    (queue,), (worker,) = data["queues"], data["workers"]
    assert (queue["name"], queue["pending"], queue["finished_rate"]) == ("default", {"5": 3}, 0.0)
    assert (worker["host"], worker["slots"], worker["busy"]) == ("host-one", 4, 3)


def test_without_a_terminal_it_says_what_to_do(busy: str) -> None:
    done = run(busy)
    assert done.returncode == 2
    assert done.stderr == "Error: stdout is not a terminal; use --once or --json\n"


@pytest.mark.parametrize("how", ["q", "signal"])
def test_it_follows_the_queue_until_it_is_quit(busy: str, how: str, sql: Sql) -> None:
    with in_a_terminal(busy) as (process, terminal):
        before = termios.tcgetattr(terminal)
        until(terminal, "3 waiting")
        sql("select * from rowlease.operate('cancel', '{\"queue\": \"default\"}')")
        until(terminal, "0 waiting")
        if how == "q":
            os.write(terminal, b"xq")
        else:
            process.send_signal(signal.SIGINT)
        with suppress(OSError):
            until(terminal, re.escape("\x1b[?1049l"))  # the screen as it was before
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(terminal) == before
