"""Chancy."""

from __future__ import annotations

import asyncio
import logging

from chancy import Chancy, Queue, Worker, job
from reporting import DSN, SETTINGS, Reporter, main, say, steadily, timed

reporter = Reporter()
# Its worker logs every job it takes; a benchmark of it should not be one of the log.
quiet = logging.getLogger("chancy-peer")
quiet.setLevel(logging.WARNING)


@job()
def noop() -> None: ...


@job()
async def anoop(at: float | None = None) -> None:
    reporter.began(at)


task = anoop if SETTINGS.get("asynchronous", True) else noop


async def install() -> None:
    async with Chancy(DSN) as chancy:
        await chancy.migrate()
        await chancy.declare(Queue("default", **SETTINGS.get("queue", {})), upsert=True)


async def enqueue(count: int, size: int) -> None:
    async def many(number: int) -> None:
        async for _ in chancy.push_many([task.job] * number, batch_size=size):
            pass

    async with Chancy(DSN) as chancy:
        await timed(count, size, many if size > 1 else lambda _: chancy.push(task))


async def send(rate: float, seconds: float) -> None:
    async with Chancy(DSN) as chancy:
        await steadily(rate, seconds, lambda at: chancy.push(anoop.job.with_kwargs(at=at)))


async def work() -> None:
    async with Chancy(DSN, log=quiet) as chancy, Worker(chancy) as worker:
        say("ready")
        await asyncio.gather(reporter.report(), worker.wait_for_shutdown())


if __name__ == "__main__":
    main({"install": install, "enqueue": enqueue, "send": send, "work": work})
