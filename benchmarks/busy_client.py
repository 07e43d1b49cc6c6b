"""What does an enqueue of a busy web application take, and how often does its client log in?

    python -m benchmarks.busy_client [--seconds 5] [--runs 3] [--dsn postgresql://...]

Threads or coroutines that enqueue at the same time, and 1,000 arrivals a second at random moments,
as a web server has them. Beside it, the bare routine on kept connections of psycopg, in as many
threads. A login is counted from the second second on. The ways take turns, each on a new database.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import random
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import psycopg

from benchmarks.async_enqueue import ROUTINE, noop
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, finish
from rowlease import AsyncClient, Client
from rowlease.client.call_threads import MAX_CALL_THREADS
from rowlease.store.postgresql.connection import BoundedConnection, Connector

#: How many call at the same time.
AT_ONCE = (8, 16, 64)
ARRIVALS_A_SECOND = 1000
#: Seconds at the beginning in which a client may open the connections that it needs.
WARM_UP = 1.0


class Calls:
    """The calls of one run: their latencies after the warm-up, and the logins of rowlease."""

    def __init__(self, seconds: float) -> None:
        self.counts_from = time.perf_counter() + WARM_UP
        self.ends = self.counts_from + seconds
        self.latencies: list[float] = []
        self.logins = 0

    @property
    def goes_on(self) -> bool:
        return time.perf_counter() < self.ends

    def end(self, began: float) -> None:
        if began >= self.counts_from:
            self.latencies.append(time.perf_counter() - began)

    def count_logins(self) -> Callable[[], None]:
        """Count what the store opens; returns what ends the counting."""
        connect = Connector.__call__

        def counting(connector: Connector) -> BoundedConnection:
            self.logins += time.perf_counter() >= self.counts_from
            return connect(connector)

        setattr(Connector, "__call__", counting)  # noqa: B010
        return lambda: setattr(Connector, "__call__", connect)


def in_threads(calls: Calls, threads: int, enqueue: Callable[[int], object]) -> None:
    def run() -> None:
        number = 0
        while calls.goes_on:
            began = time.perf_counter()
            enqueue(number := number + 1)
            calls.end(began)

    started = [threading.Thread(target=run) for _ in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()


async def by_coroutines(
    calls: Calls, coroutines: int, enqueue: Callable[[int], Awaitable[object]]
) -> None:
    async def run() -> None:
        number = 0
        while calls.goes_on:
            began = time.perf_counter()
            await enqueue(number := number + 1)
            calls.end(began)

    await asyncio.gather(*(run() for _ in range(coroutines)))


async def arriving(calls: Calls, enqueue: Callable[[int], Awaitable[object]]) -> None:
    """Calls that begin at random moments, whether or not earlier ones have ended."""

    async def run(arrived: float) -> None:
        await enqueue(0)
        calls.end(arrived)

    running: set[asyncio.Task[None]] = set()
    due = time.perf_counter()
    while calls.goes_on:
        due += random.expovariate(ARRIVALS_A_SECOND)
        if (pause := due - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        one = asyncio.create_task(run(due))
        running.add(one)
        one.add_done_callback(running.discard)
    await asyncio.gather(*running)


def bare(dsn: str, connections: int) -> Callable[[int], None]:
    """The bare routine, on connections that are kept."""
    free: queue.SimpleQueue[psycopg.Connection] = queue.SimpleQueue()
    for _ in range(connections):
        free.put(psycopg.connect(dsn, autocommit=True, prepare_threshold=0))

    def enqueue(number: int) -> None:
        new = noop.request(number).new
        connection = free.get()
        try:
            connection.execute(
                ROUTINE, ("default", new.kind, new.payload, uuid.uuid4().hex)
            ).fetchall()
        finally:
            free.put(connection)

    return enqueue


def with_client(dsn: str, calls: Calls, threads: int) -> None:
    with Client(dsn) as client:
        in_threads(calls, threads, lambda number: client.enqueue(noop, number))


def with_async_client(
    dsn: str, calls: Calls, drive: Callable[[Calls, Callable[[int], Awaitable[object]]], Any]
) -> None:
    async def run() -> None:
        async with AsyncClient(dsn) as client:
            await drive(calls, lambda number: client.enqueue(noop, number))

    asyncio.run(run())


def bare_arrivals(dsn: str, calls: Calls) -> None:
    from concurrent.futures import ThreadPoolExecutor

    async def run() -> None:
        enqueue, loop = bare(dsn, MAX_CALL_THREADS), asyncio.get_running_loop()
        with ThreadPoolExecutor(MAX_CALL_THREADS) as threads:
            await arriving(calls, lambda number: loop.run_in_executor(threads, enqueue, number))

    asyncio.run(run())


def ways() -> dict[str, Callable[[str, Calls], None]]:
    found: dict[str, Callable[[str, Calls], None]] = {}
    for at_once in AT_ONCE:
        found[f"bare psycopg, {at_once} threads"] = lambda dsn, calls, n=at_once: in_threads(  # type: ignore[misc]
            calls, n, bare(dsn, min(n, 32))
        )
        found[f"Client, {at_once} threads"] = lambda dsn, calls, n=at_once: with_client(  # type: ignore[misc]
            dsn, calls, n
        )
        found[f"AsyncClient, {at_once} coroutines"] = lambda dsn, calls, n=at_once: (  # type: ignore[misc]
            with_async_client(dsn, calls, lambda c, enqueue: by_coroutines(c, n, enqueue))
        )
    found[f"bare psycopg, {ARRIVALS_A_SECOND:,} arrivals/s"] = bare_arrivals
    found[f"AsyncClient, {ARRIVALS_A_SECOND:,} arrivals/s"] = lambda dsn, calls: with_async_client(
        dsn, calls, arriving
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[str, list[Calls]] = {name: [] for name in ways()}
    with server(given.dsn) as place:
        printed = described(place)
        for _ in range(given.runs):
            for name, way in ways().items():
                with database(place) as dsn:
                    calls = Calls(given.seconds)
                    restore = calls.count_logins()
                    try:
                        way(dsn, calls)
                    finally:
                        restore()
                    found[name].append(calls)
                    print(name, *row(name, [calls])[1:], file=sys.stderr)
    rows = [row(name, runs) for name, runs in found.items()]
    title = f"Enqueues for {given.seconds:g} s after a warm-up, medians of {given.runs} runs"
    columns = ["", "calls/s", "p50", "p99", "logins for 1,000 calls"]
    return finish(Table(title, printed, columns, rows))


def row(name: str, runs: list[Calls]) -> list[str]:
    def at(share: float) -> str:
        values = [sorted(one.latencies)[int(share * len(one.latencies))] for one in runs]
        return f"{median(values) * 1000:.1f} ms"

    rate = median(len(one.latencies) / (one.ends - one.counts_from) for one in runs)
    number = sum(len(one.latencies) for one in runs)
    logins = sum(one.logins for one in runs)
    shown = f"{logins / number * 1000:.1f}" if "bare" not in name else ""
    return [name, f"{rate:,.0f}", at(0.5), at(0.99), shown]


if __name__ == "__main__":
    sys.exit(main())
