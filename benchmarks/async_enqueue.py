"""How fast do 100 coroutines enqueue with AsyncClient?

    python -m benchmarks.async_enqueue [--requests 4000] [--runs 5] [--dsn postgresql://...]

Compared with Client in one thread and in as many threads as AsyncClient has, and with the bare
routine on connections of psycopg for asyncio, which has no receipt that survives the call, no
deadline and no retry. The processor time is that of this process, for one enqueue. The ways take
turns, each on a new database.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, finish, rates, times
from rowlease import AsyncClient, Client, task
from rowlease.client.call_threads import MAX_CALL_THREADS

COROUTINES = 100
#: The smaller number of threads, and of connections of the bare routine.
FEW = 5
ROUTINE = (
    "select request_id, outcome from rowlease.enqueue_many(%s::text, array[%s], array[%s],"
    " array[0], p_receipt_key => %s::text, p_in_transaction => false)"
)


@task
def noop(number: int) -> None: ...


def in_threads(dsn: str, count: int, threads: int) -> None:
    with Client(dsn) as client:
        if threads == 1:
            for number in range(count):
                client.enqueue(noop, number)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda number: client.enqueue(noop, number), range(count)))


async def by_coroutines(count: int, enqueue: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def one() -> None:
        for number in numbers:
            await enqueue(number)

    await asyncio.gather(*(one() for _ in range(COROUTINES)))


async def with_client(dsn: str, count: int) -> None:
    async with AsyncClient(dsn) as client:
        await by_coroutines(count, lambda number: client.enqueue(noop, number))


async def with_psycopg(dsn: str, count: int, connections: int) -> None:
    free: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(
            await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0)
        )

    async def enqueue(number: int) -> None:
        new = noop.request(number).new
        connection = await free.get()
        try:
            found = await connection.execute(
                ROUTINE, ("default", new.kind, new.payload, uuid.uuid4().hex)
            )
            await found.fetchall()
        finally:
            free.put_nowait(connection)

    await by_coroutines(count, enqueue)
    while not free.empty():
        await free.get_nowait().close()


WAYS: dict[str, Callable[[str, int], None]] = {
    "Client, 1 thread": lambda dsn, count: in_threads(dsn, count, 1),
    f"Client, {FEW} threads": lambda dsn, count: in_threads(dsn, count, FEW),
    f"Client, {MAX_CALL_THREADS} threads": lambda dsn, count: in_threads(
        dsn, count, MAX_CALL_THREADS
    ),
    "AsyncClient": lambda dsn, count: asyncio.run(with_client(dsn, count)),
    f"bare psycopg, {FEW} connections": lambda dsn, count: asyncio.run(
        with_psycopg(dsn, count, FEW)
    ),
    f"bare psycopg, {MAX_CALL_THREADS} connections": lambda dsn, count: asyncio.run(
        with_psycopg(dsn, count, MAX_CALL_THREADS)
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    costs: dict[str, list[float]] = {name: [] for name in WAYS}
    with server(given.dsn) as place:
        printed = described(place)
        for turn in range(given.runs):
            for name, way in WAYS.items():
                with database(place) as dsn:
                    began, spent = time.perf_counter(), time.process_time()
                    way(dsn, given.requests)
                    found[name].append(given.requests / (time.perf_counter() - began))
                    costs[name].append((time.process_time() - spent) / given.requests * 1e6)
                print(f"run {turn + 1}: {name} {found[name][-1]:,.0f}/s", file=sys.stderr)
    rows = [[name, *rates(found[name]), *times(costs[name], "µs")] for name in WAYS]
    title = f"{given.requests:,} enqueues one by one, medians of {given.runs}"
    columns = ["", "median", "spread", "processor time of the client", "spread"]
    return finish(Table(title, printed, columns, rows))


if __name__ == "__main__":
    sys.exit(main())
