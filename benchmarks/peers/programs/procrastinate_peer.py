"""Procrastinate, over psycopg's pool."""

from __future__ import annotations

import asyncio

import reporting
from procrastinate import App, PsycopgConnector
from reporting import DSN, SETTINGS, Reporter, main, say, steadily, timed

app = App(connector=PsycopgConnector(conninfo=DSN, **SETTINGS.get("pool", {})))
reporter = Reporter()


@app.task
async def noop(at: float | None = None) -> None:
    reporter.began(at)


@app.task
async def effect(n: int) -> None:
    await reporting.effect(n)


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


async def drill() -> None:
    # As https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html
    # has it, but every minute, not every tenth.
    @app.periodic(cron="* * * * *")
    @app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
    async def retry_stalled_jobs(context, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)

    async with app.open_async():
        await app.run_worker_async(**SETTINGS["run"])


async def stream(rate: float, seconds: float) -> None:
    async def connect():
        return lambda n: effect.defer_async(n=n)

    async with app.open_async():
        await reporting.numbers(rate, seconds, connect)


orders = {"install": install, "enqueue": enqueue, "send": send, "work": work}
main({**orders, "drill": drill, "stream": stream})
