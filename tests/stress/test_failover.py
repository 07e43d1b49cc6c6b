"""A failover under load: what the database loses is lost, and nothing is falsified.

The standby is cut off for some seconds, the primary is killed, the standby is promoted: it hands
out the ids of the lost requests again, while workers still run those. What the standby kept of the
record of changes, and what producers and workers were answered, is one history, which is checked.

`ROWLEASE_STRESS_FAILOVERS=20 pytest tests/stress/test_failover.py` is the long form; what was seen
is printed (`-s` shows it). It also has as many failovers to a standby for which commits wait.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

from rowlease.errors import StoreUnavailable
from rowlease.model import NewRequest
from rowlease.store import open_store
from tests.stress import failover_tasks
from tests.stress.history import Asked, Fault, History, check, lost
from tests.stress.replicas import Seed, Server, until
from tests.stress.witness import kept, witness

LONG = os.environ.get("ROWLEASE_STRESS_FAILOVERS")
FAILOVERS = int(LONG or "1")
#: A commit waits until the standby has it: none is lost.
SYNCHRONOUS = {"synchronous_standby_names": "*", "synchronous_commit": "on"}
#: Seconds that a request runs: longer than the failover takes, or no outcome would come late.
RUN = 2.5
#: Seconds of load before the standby is cut off, and until the primary is killed.
IN_STEP, LAG = 1.5, 2.0
#: Seconds that a lease lasts; some are left behind by what was lost, and must run out.
LEASE = 5
WORKERS, SLOTS = 2, 200
PRODUCERS = 2
#: Requests of one call, and seconds between two calls until the failover.
BATCH, PAUSE = 4, 0.1
#: Attempts and crashes of a request.
MOST = 99
#: Requests that are to be acknowledged after the failover. They come as fast as they can, so that
#: the lost ids are assigned again while workers still run the lost requests.
AFTERWARDS = 400


@dataclass
class Load:
    """The producers, and what they were answered."""

    history: History = field(default_factory=History)
    numbers: Iterator[int] = field(default_factory=count)
    #: How many requests the second server has acknowledged.
    afterwards: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def produce(self, producer: int, dsn: str, second_port: int) -> None:
        """Call on a connection of the producer's own, which says which server answers."""
        with closing(open_store(dsn)) as store:
            while not self.stop.is_set():
                numbers = tuple(next(self.numbers) for _ in range(BATCH))
                try:
                    with psycopg.connect(dsn, connect_timeout=5) as own:
                        server = int(own.info.port == second_port)
                        while not self.stop.is_set():
                            requests = [
                                NewRequest(kind="answer", payload=f'{{"n": {n}, "seconds": {RUN}}}')
                                for n in numbers
                            ]
                            answers = store.enqueue_many("default", requests, connection=own)
                            own.commit()
                            ids = tuple(answer.request_id or 0 for answer in answers)
                            self.history.add(
                                Asked(numbers, "ok", ids, f"producer {producer}", server=server)
                            )
                            self.afterwards += BATCH * server
                            if self.afterwards >= AFTERWARDS:
                                self.stop.set()
                            self.stop.wait(0 if self.is_over.is_set() else PAUSE)
                            numbers = tuple(next(self.numbers) for _ in range(BATCH))
                except (psycopg.OperationalError, StoreUnavailable):
                    self.history.add(Asked(numbers, "unknown"))
                    self.stop.wait(0.02)


@contextmanager
def workers(dsn: str, log: Path, count: int = WORKERS) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "rowlease", "worker", failover_tasks.__name__]
    options = ["--concurrency", str(SLOTS), "--grace", "60s"]
    environment = {**os.environ, "ROWLEASE_DSN": dsn, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = []
    try:
        for number in range(count):
            with (log / f"worker {number}").open("wb") as file:
                started.append(
                    subprocess.Popen(
                        [*command, *options], env=environment, stdout=file, stderr=file
                    )
                )
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def fail_over(seed: Seed, home: Path, is_synchronous: bool) -> Counter[str]:
    """One failover under load; what was seen."""
    home.mkdir()
    load = Load(History(max_crashes=MOST, keeps_commits=is_synchronous))
    primary = Server(seed, home / "one", more=SYNCHRONOUS if is_synchronous else None)
    standby = Server(seed, home / "two", follows=primary)
    dsn = primary.dsn.replace(f":{primary.port}/", f":{primary.port},127.0.0.1:{standby.port}/")
    dsn += "&target_session_attrs=read-write"
    try:
        until("the standby follows", standby.is_sent_everything_at_once)
        witness(primary.ask)
        settings = f'{{"lease_seconds": {LEASE}, "max_attempts": {MOST}, "max_crashes": {MOST}}}'
        primary.ask(f"select rowlease.configure_queue('default', '{settings}')")
        with workers(dsn, home) as running, ThreadPoolExecutor(PRODUCERS) as pool:
            until(
                "the workers are there",
                lambda: primary.ask("select count(*) from rowlease.worker") == [(WORKERS,)],
            )
            calls = [pool.submit(load.produce, n, dsn, standby.port) for n in range(PRODUCERS)]
            try:
                load.stop.wait(IN_STEP)
                standby.cut_off()
                load.stop.wait(LAG)
                primary.kill()
                standby.promote()
                load.history.add(Fault("failover"))
                load.is_over.set()
                for call in calls:
                    call.result()
            finally:
                load.stop.set()
            until(
                "all is done", lambda: standby.ask("select count(*) from rowlease.queue") == [(0,)]
            )
            for process in running:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(60) for process in running] == [0] * WORKERS
            printed = "".join((home / f"worker {n}").read_text() for n in range(WORKERS))
        return judge(kept(standby.ask, load.history), late=printed.count("lease lost"))
    finally:
        primary.kill()
        standby.kill()


def judge(history: History, late: int) -> Counter[str]:
    """Check the history; count what was lost, and whose ids were handed out again."""
    assert check(history) == []
    calls = [one for one in history.events if isinstance(one, Asked)]
    acknowledged = [one for one in calls if one.ids]
    ids = {
        n: (id, one.server)
        for one in acknowledged
        for n, id in zip(one.numbers, one.ids, strict=True)
    }
    gone = {ids[n][0] for n in lost(history)}
    return Counter(
        acknowledged=len(ids),
        lost=len(gone),
        ids_handed_out_again=len(gone & {id for id, server in ids.values() if server}),
        outcomes_refused=late,
    )


@pytest.mark.timeout(300 + 60 * FAILOVERS)
@pytest.mark.parametrize("is_synchronous", [False, True] if LONG else [False])
def test_a_failover_loses_the_end_and_falsifies_no_result(
    seed: Seed, tmp_path: Path, is_synchronous: bool
) -> None:
    seen: Counter[str] = Counter()
    for number in range(FAILOVERS):
        one = fail_over(seed, tmp_path / str(number), is_synchronous)
        sys.stdout.write(f"\nfailover {number + 1}: {dict(one)}\n")
        assert (one["lost"] == 0) == is_synchronous
        assert (one["ids_handed_out_again"] == 0) == is_synchronous
        seen.update(one)
    how = "commits wait for the standby" if is_synchronous else "commits do not wait"
    sys.stdout.write(f"\n{FAILOVERS} failovers, {how}: {dict(seen)}\n")
