"""A database is migrated to the next release while workers and producers of this one run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import in_database, scratch_database
from tests.releases import Releases, environment, migrate, releases

JOBS = """\
from rowlease import task

@task
def work(n):
    return n
"""
#: Enqueues without a pause until its stdin is closed, then prints how many.
PRODUCER = """\
import sys, threading
from rowlease import Client, untyped_request

closed = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
total = 0
with Client() as client:
    while not closed.is_set():
        client.enqueue_many([
            untyped_request("work", {"n": n}) for n in range(total, total + 20)
        ])
        total += 20
        closed.wait(0.01)
print(total)
"""
PATIENCE = 60

#: Requests finished, different ones of them, and the least and most attempts of one.
OUTCOME = """
select count(*), count(distinct result::text), min(num_attempts), max(num_attempts)
  from rowlease.queue_history
"""


@pytest.fixture
def both(repository: Path, tmp_path: Path) -> Releases:
    (tmp_path / "jobs.py").write_text(JOBS)
    return releases(repository, tmp_path)


@contextmanager
def process(folder: Path, release: Path, dsn: str, *arguments: str) -> Iterator[Any]:
    """A process of a release in a folder with tasks; killed at the end."""
    with (folder / f"log-{time.monotonic_ns()}").open("w+") as log:
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment(release, dsn),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as running:
            try:
                yield running
            finally:
                running.kill()
        log.seek(0)
        text = log.read()
    assert "ERROR" not in text, text
    assert "WARNING" not in text, text


def end(worker: subprocess.Popen[str]) -> None:
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0


def finished(connection: psycopg.Connection) -> int:
    row = connection.execute("select count(*) from rowlease.queue_history").fetchone()
    assert row
    return int(row[0])


def wait_for(connection: psycopg.Connection, total: int) -> None:
    """Wait until so many requests have been finished."""
    ends = time.monotonic() + PATIENCE
    while finished(connection) < total:
        assert time.monotonic() < ends, (finished(connection), total)
        time.sleep(0.02)


WORKER = ("-m", "rowlease", "worker", "jobs", "--executor", "thread")


def test_workers_and_producers_of_the_last_release_go_on_while_the_next_one_migrates(
    both: Releases, server_dsn: str, tmp_path: Path
) -> None:
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        migrate(both.old, dsn)
        with (
            psycopg.connect(dsn, autocommit=True) as connection,
            process(tmp_path, both.old, dsn, *WORKER) as old,
            process(tmp_path, both.old, dsn, "-c", PRODUCER) as producer,
        ):
            wait_for(connection, 200)
            assert re.search(r"from \d{4} to schema \d{4}", migrate(both.new, dsn))
            wait_for(connection, finished(connection) + 200)
            # A host of the last release restarts, and one of the next release joins.
            end(old)
            with (
                process(tmp_path, both.old, dsn, *WORKER) as restarted,
                process(tmp_path, both.new, dsn, *WORKER) as new,
            ):
                wait_for(connection, finished(connection) + 200)
                assert "nothing to do" in migrate(both.old, dsn)
                total = int(producer.communicate(timeout=PATIENCE)[0])
                wait_for(connection, total)
                end(restarted)
                end(new)
            assert connection.execute(OUTCOME).fetchone() == (total, total, 1, 1)
            assert connection.execute("select count(*) from rowlease.queue").fetchone() == (0,)
