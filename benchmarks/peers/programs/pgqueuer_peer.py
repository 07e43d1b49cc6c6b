"""PgQueuer, as its own tools/benchmark.py runs it: asyncpg, uvloop."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import reporting
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from reporting import DSN, SETTINGS, Reporter, main, say, steadily, timed


async def queries() -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(DSN)))


async def install() -> None:
    own = await queries()
    await own.install()
    if SETTINGS.get("autovac"):
        await own.optimize_autovacuum()


async def enqueue(count: int, size: int) -> None:
    own = await queries()
    if size == 1:
        await timed(count, 1, lambda _: own.enqueue("noop", b"{}"))
    else:
        await timed(count, size, lambda n: own.enqueue(["noop"] * n, [b"{}"] * n, [0] * n))


async def send(rate: float, seconds: float) -> None:
    own = await queries()
    await steadily(rate, seconds, lambda at: own.enqueue("noop", json.dumps({"at": at}).encode()))


async def work() -> None:
    reporter = Reporter()
    running = [reporter.report()]
    for _ in range(SETTINGS.get("dequeuers", 1)):
        worker = PgQueuer((await queries()).driver)

        @worker.entrypoint("noop")
        async def noop(job) -> None:
            reporter.began(json.loads(job.payload).get("at") if len(job.payload) > 2 else None)

        running.append(worker.run(**SETTINGS.get("run", {})))
    say("ready")
    await asyncio.gather(*running)


async def drill() -> None:
    worker = PgQueuer((await queries()).driver)

    @worker.entrypoint("effect")
    async def effect(job) -> None:
        await reporting.effect(json.loads(job.payload)["n"])

    await worker.run(**SETTINGS["run"])


async def stream(rate: float, seconds: float) -> None:
    async def connect():
        own = await queries()
        return lambda n: own.enqueue("effect", json.dumps({"n": n}).encode())

    await reporting.numbers(rate, seconds, connect)


orders = {"install": install, "enqueue": enqueue, "send": send, "work": work}
main({**orders, "drill": drill, "stream": stream}, uvloop.run)
