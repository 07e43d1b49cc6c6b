"""Runs a peer's program and measures it; see `programs/reporting.py` for what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import psutil
import psycopg
import sqlalchemy as sa

from benchmarks.peers import Peer, Way
from benchmarks.peers.cache import NotInstalled
from benchmarks.servers import as_in_use
from rowlease.store.postgresql.scratch import scratch_database

#: Seconds that a peer has to drain what it was given.
PATIENCE = 240.0
#: Seconds between looks whether everything is finished.
LOOK_EVERY = 0.005
BATCH = 5_000


class Program:
    """A running program of a peer, and what it has said so far."""

    def __init__(self, command: Sequence[str], dsn: str, settings: Mapping[str, Any]) -> None:
        self.first: float | None = None
        self.ran = 0
        self.late: list[float] = []
        self.took: float | None = None
        self.is_ready = threading.Event()
        self._errors = TemporaryFile("w+")  # noqa: SIM115
        place = sa.make_url(dsn).set(drivername="postgresql").render_as_string(False)
        environment = {**os.environ, "PEER_DSN": place, "PEER_SETTINGS": json.dumps(settings)}
        self._process = subprocess.Popen(
            list(command),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            match line.split():
                case ["ready"]:
                    self.is_ready.set()
                case ["first", at]:
                    self.first = float(at)
                case ["ran", count]:
                    self.ran = int(count)
                case ["late", milliseconds]:
                    self.late.append(float(milliseconds))
                case ["took", seconds]:
                    self.took = float(seconds)

    def wait(self) -> None:
        """Let it end by itself."""
        self._process.wait(PATIENCE)
        self._reader.join()
        self.check()

    def check(self) -> None:
        """Raises NotInstalled if it failed."""
        if self._process.poll():
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:]
            raise NotInstalled(f"its program failed: {last}")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # some have children
        self._process.wait()
        self._errors.close()


@contextmanager
def running(peer: Peer, dsn: str, settings: Mapping[str, Any], *order: object) -> Iterator[Program]:
    """A program of a peer for the time of a block."""
    program = Program([*peer.program(), *map(str, order)], dsn, settings)
    try:
        yield program
    finally:
        program.end()


def order(peer: Peer, dsn: str, settings: Mapping[str, Any], *words: object) -> float:
    """Run to the end; the seconds that it says it took."""
    with running(peer, dsn, settings, *words) as program:
        program.wait()
        return program.took or 0.0


@contextmanager
def installed(peer: Peer, server_dsn: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """The DSN of a new database with a peer's schema."""
    with scratch_database(server_dsn) as dsn:
        order(peer, dsn, settings, "install")
        yield dsn


class Drained(NamedTuple):
    """How a queue was drained.

    Attributes:
        rate: requests a second.
        processor: the processor time of all programs of the machine, in microseconds a request.
    """

    rate: float
    processor: float


def processor_seconds() -> float:
    """The processor time that all programs of the machine have taken."""
    spent = psutil.cpu_times()
    return float(spent.user + spent.system)


def drain_rate(peer: Peer, way: Way, server_dsn: str, count: int) -> Drained:
    """From the start of the first task until the database has all outcomes."""
    count = min(count, way.requests)
    with installed(peer, server_dsn, way.settings) as dsn, ExitStack() as stack:
        order(peer, dsn, way.settings, "enqueue", count, BATCH)
        as_in_use(dsn)
        sql = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        began, before = time.time(), processor_seconds()
        workers = [
            stack.enter_context(running(peer, dsn, way.settings, "work"))
            for _ in range(way.processes)
        ]
        while sum(worker.ran for worker in workers) < count and way.is_counted:
            time.sleep(LOOK_EVERY)
            for worker in workers:
                worker.check()
            if time.time() - began > PATIENCE:
                raise NotInstalled(f"after {PATIENCE:g} s {sum(w.ran for w in workers)} are done")
        while sql.execute(peer.unfinished).fetchone() == (True,):
            time.sleep(LOOK_EVERY)
            if time.time() - began > PATIENCE:
                raise NotInstalled(f"after {PATIENCE:g} s not all outcomes are in the database")
        ended, spent = time.time(), processor_seconds() - before
        began = min((worker.first for worker in workers if worker.first), default=began)
    return Drained(count / (ended - began), spent / count * 1e6)


def latencies(peer: Peer, way: Way, server_dsn: str, rate: float, seconds: float) -> list[float]:
    """Milliseconds from before the call that enqueues to the start of the task, sorted."""
    with (
        installed(peer, server_dsn, way.settings) as dsn,
        running(peer, dsn, way.settings, "work") as worker,
    ):
        worker.is_ready.wait(30)
        time.sleep(2)
        order(peer, dsn, way.settings, "send", rate, seconds)
        until = time.time() + 15
        while len(worker.late) < int(rate * seconds) and time.time() < until:
            worker.check()
            time.sleep(0.05)
        if len(worker.late) < int(rate * seconds):
            raise NotInstalled(f"{len(worker.late)} of {int(rate * seconds)} began within 15 s")
        return sorted(worker.late)
