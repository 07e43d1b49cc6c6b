"""Procrastinate, over psycopg's pool."""

from __future__ import annotations

import asyncio

from procrastinate import App, PsycopgConnector
from reporting import DSN, SETTINGS, Reporter, main, say, steadily, timed

app = App(connector=PsycopgConnector(conninfo=DSN, **SETTINGS.get("pool", {})))
reporter = Reporter()


@app.task
async def noop(at: float | None = None) -> None:
    reporter.began(at)


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def enqueue(count: int, size: int) -> None:
    async with app.open_async():
        if size == 1:
            await timed(count, 1, lambda _: noop.defer_async())
        else:
            await timed(count, size, lambda n: noop.batch_defer_async(*[{}] * n))


async def send(rate: float, seconds: float) -> None:
    async with app.open_async():
        await steadily(rate, seconds, lambda at: noop.defer_async(at=at))


async def work() -> None:
    async with app.open_async():
        say("ready")
        worker = app.run_worker_async(**SETTINGS.get("run", {}))
        await asyncio.gather(reporter.report(), worker)


main({"install": install, "enqueue": enqueue, "send": send, "work": work})
