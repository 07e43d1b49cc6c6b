"""How soon does an idle worker start a request?

    python benchmarks/latency.py [--rate 200] [--seconds 10] [--runs 5] [--dsn postgresql://...]

A worker of its own process, with a slot (a child process) for each core, and nothing else to do. A
producer enqueues one request after the other at a steady rate, each call a transaction; the task
says when it began. Both are on one host, so one clock serves both. The latency counts from before
the call of `enqueue`, so it holds the producer's round trip, too.

The server is ROWLEASE_TEST_PG_DSN's, else an embedded one. Databases are made and dropped again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import psycopg
from servers import add_dsn, database, server

from rowlease import Client, task

#: Milliseconds.
GOALS = {"p50": 5.0, "p99": 30.0}
#: Milliseconds until what one host hands back is started by another that is idle.
BACK_GOAL = 50.0
HANDED_BACK = 20
#: Seconds after which a worker that was stopped sleeps once more.
ASLEEP_AGAIN = 1.5


@task
def began() -> float:
    return time.time()


class Latencies(NamedTuple):
    """Of one run, in milliseconds."""

    p50: float
    p99: float
    longest: float


@contextmanager
def idle_worker(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """`rowlease worker`, ready."""
    command = [sys.executable, "-m", "rowlease", "worker", "latency:began", "--log-level=debug"]
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ROWLEASE_DSN": dsn}
    with (
        TemporaryFile("w+") as log,
        subprocess.Popen(command, env=environment, stderr=log) as process,
    ):
        try:
            while "worker idle" not in said(log):
                if process.poll() is not None:
                    raise SystemExit(said(log))
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()


def said(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def measure(dsn: str, rate: float, seconds: float) -> Latencies:
    with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as sql:
        sent: dict[int, float] = {}
        start = time.time() + 0.1
        count = int(rate * seconds)
        for turn in range(count):
            time.sleep(max(0.0, start + turn / rate - time.time()))
            at = time.time()
            sent[client.enqueue(began).request_id or 0] = at
        while True:
            found = sql.execute(
                "select request_id, result::text from rowlease.queue_history"
            ).fetchall()
            rows = {request_id: json.loads(result) for request_id, result in found}
            if sent.keys() <= rows.keys():
                break
            time.sleep(0.05)
    late = sorted(1000 * (rows[request_id] - at) for request_id, at in sent.items())
    return Latencies(statistics.median(late), late[int(0.99 * len(late))], late[-1])


def handed_back(dsn: str, worker: subprocess.Popen[bytes]) -> list[float]:
    """Milliseconds from handing back what another host leased, to its start here."""
    found = []
    with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as sql:
        for _ in range(HANDED_BACK):
            worker.send_signal(signal.SIGSTOP)  # so that the other one gets it
            client.enqueue(began)
            held = client.store.dequeue("another host", ["default"], 1).requests
            worker.send_signal(signal.SIGCONT)
            time.sleep(ASLEEP_AGAIN)
            at = time.time()
            client.store.abandon(held)
            while not (
                rows := sql.execute(
                    "select result::text::float from rowlease.queue_history where request_id = %s",
                    (held[0].request_id,),
                ).fetchall()
            ):
                time.sleep(0.02)
            found.append(1000 * (rows[0][0] - at))
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        dsn = stack.enter_context(database(place))
        worker = stack.enter_context(idle_worker(dsn))
        time.sleep(ASLEEP_AGAIN)
        back = handed_back(dsn, worker)
        runs = [measure(dsn, given.rate, given.seconds) for _ in range(given.runs)]
    what = f"{given.rate:g} requests a second, idle worker"
    print(f"\n| {what} | median of {given.runs} | spread | goal |")
    print("|---|---|---|---|")
    for name in Latencies._fields:
        values = [getattr(run, name) for run in runs]
        goal = f"{GOALS[name]:g} ms" if name in GOALS else ""
        print(
            f"| {name} | {statistics.median(values):.1f} ms "
            f"| {min(values):.1f} to {max(values):.1f} ms | {goal} |"
        )
    print(
        f"| handed back by another host, p50 of {HANDED_BACK} | {statistics.median(back):.1f} ms "
        f"| {back[0]:.1f} to {back[-1]:.1f} ms | {BACK_GOAL:g} ms |"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
