"""Measures the time from an enqueue to the start of the request in an idle worker.

    python -m benchmarks.latency [--rate 200] [--seconds 10] [--runs 5] [--dsn postgresql://...]

The idle worker has a child process for each core, or a hundred coroutines. The peers have the
settings that their documentation recommends for throughput; pg-boss also has its notifications. A
producer enqueues requests at a steady rate, each in its own transaction, and the task records when
it begins. Both run on one host, so they share a clock. The latency begins before the call of
`enqueue`, so it includes the producer's round trip.

The databases are created for the benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import psycopg

from benchmarks.peers import PEERS
from benchmarks.peers.cache import NotInstalled
from benchmarks.peers.running import latencies
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_most, finish, times
from rowlease import Client, task

PROCESSES, COROUTINE = "rowlease, processes", "rowlease, coroutine"
#: The goal in milliseconds for the start of a request that another host has abandoned.
ABANDONED_GOAL = 50.0
#: How many requests are abandoned.
ABANDONED = 10
#: Seconds after which a worker that was suspended is idle again.
IDLE_AGAIN = 1.5


@task
def began() -> float:
    return time.time()


@task
async def abegan() -> float:
    return time.time()


@task
async def nap() -> float:
    """For a second."""
    at = time.time()
    await asyncio.sleep(1)
    return at


class Latencies(NamedTuple):
    """The latencies of one run, in milliseconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, late: list[float]) -> Latencies:
        return cls(statistics.median(late), late[int(0.99 * len(late))], late[-1])

    @classmethod
    def median(cls, runs: list[Latencies]) -> Latencies:
        return cls(*(statistics.median(values) for values in zip(*runs, strict=True)))


@contextmanager
def idle_worker(dsn: str, task: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rowlease worker`; the block begins when it is idle."""
    command = [
        sys.executable,
        "-m",
        "rowlease",
        "worker",
        f"benchmarks.latency:{task}",
        "--log-level=debug",
        *options,
    ]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ROWLEASE_DSN": dsn}
    with (
        TemporaryFile("w+") as log,
        subprocess.Popen(command, env=environment, stderr=log) as process,
    ):
        try:
            while "worker idle" not in printed(log):
                if process.poll() is not None:
                    raise SystemExit(printed(log))
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()


def printed(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def measure(dsn: str, task: str, rate: float, seconds: float) -> list[float]:
    """Enqueue requests at a rate, and return their latencies in milliseconds, sorted."""
    with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as sql:
        sent: dict[int, float] = {}
        start = time.time() + 0.1
        count = int(rate * seconds)
        for turn in range(count):
            time.sleep(max(0.0, start + turn / rate - time.time()))
            at = time.time()
            sent[client.enqueue_untyped(task).request_id] = at
        while True:
            found = sql.execute(
                "select request_id, result::text from rowlease.queue_history"
                " where status = 'Complete'"
            ).fetchall()
            rows = {request_id: json.loads(result) for request_id, result in found}
            if sent.keys() <= rows.keys():
                break
            time.sleep(0.05)
    return sorted(1000 * (rows[request_id] - at) for request_id, at in sent.items())


def after_abandon(dsn: str, worker: subprocess.Popen[bytes]) -> list[float]:
    """Milliseconds from an abandon by another host to the start in this worker, sorted."""
    found = []
    with Client(dsn) as client, psycopg.connect(dsn, autocommit=True) as sql:
        for _ in range(ABANDONED):
            worker.send_signal(signal.SIGSTOP)  # so that the other host gets the request
            client.enqueue(began)
            held = client.store.dequeue("another host", ["default"], 1).requests
            worker.send_signal(signal.SIGCONT)
            time.sleep(IDLE_AGAIN)
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


def own(place: str, task: str, rate: float, seconds: float) -> list[float]:
    with database(place) as dsn, idle_worker(dsn, task):
        time.sleep(IDLE_AGAIN)
        return measure(dsn, task, rate, seconds)


def ways(rate: float, seconds: float) -> dict[str, Callable[[str], list[float]]]:
    """The systems and settings to measure, by name; each call makes one run."""
    found: dict[str, Callable[[str], list[float]]] = {
        PROCESSES: partial(own, task="began", rate=rate, seconds=seconds),
        COROUTINE: partial(own, task="abegan", rate=rate, seconds=seconds),
    }
    for peer in PEERS:
        for way in peer.ways:
            if way.processes == 1 and not way.name.startswith("defaults"):
                run = partial(latencies, peer, way, rate=rate, seconds=seconds)
                found[f"{peer.name}, {way.name}"] = run
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[str, list[Latencies]] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        printed = described(place)
        for turn in range(given.runs):
            for name, run in ways(given.rate, given.seconds).items():
                if name in missing:
                    continue
                try:
                    late = run(place)
                except NotInstalled as error:
                    missing[name] = str(error)
                    continue
                found.setdefault(name, []).append(Latencies.of(late))
                print(f"run {turn + 1}: {name} {found[name][-1]}", file=sys.stderr)
        dsn = stack.enter_context(database(place))
        back = after_abandon(dsn, stack.enter_context(idle_worker(dsn, "began")))
    medians = {name: Latencies.median(runs) for name, runs in found.items()}
    rows = []
    for name, runs in found.items():
        p50, p99 = times([run.p50 for run in runs]), times([run.p99 for run in runs])
        rows.append([name, *p50, *p99, f"{max(run.longest for run in runs):.0f} ms"])
    rows += [[name, why, "", "", "", ""] for name, why in missing.items()]
    spread = f"{back[0]:.1f} to {back[-1]:.1f}"
    middle = statistics.median(back)
    rows.append([f"abandoned by another host ({ABANDONED})", f"{middle:.1f} ms", spread, *[""] * 3])
    ours = medians[PROCESSES]
    peers = {name: each for name, each in medians.items() if name not in (PROCESSES, COROUTINE)}
    goals = [at_most("start latency, p50", 5, ours.p50, " ms")]
    goals.append(at_most("start latency, p99", 30, ours.p99, " ms"))
    for part, value in (("p50", ours.p50), ("p99", ours.p99)) if peers else ():
        best = min(peers, key=lambda name: getattr(peers[name], part))
        limit = round(getattr(peers[best], part), 2)
        goals.append(at_most(f"start latency, {part}, against {best}", limit, value, " ms"))
    goals.append(
        at_most("start of a request that another host abandons, p50", ABANDONED_GOAL, middle, " ms")
    )
    title = (
        f"From the call of enqueue to the start of the task, {given.rate:g} requests a second,"
        f" idle worker, medians of {given.runs}"
    )
    columns = ["", "p50", "spread", "p99", "spread", "longest"]
    return finish(Table(title, printed, columns, rows, goals))


if __name__ == "__main__":
    sys.exit(main())
