"""Tasks with lifespans, for workers in processes of their own: lifespans belong to a process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import psycopg

from rowlease import current, lifespan, task

log = logging.getLogger(__name__)


@dataclass
class Pool:
    pid: int


@dataclass
class Session:
    loop: asyncio.AbstractEventLoop
    ticks: int = 0


@lifespan
def pool() -> Iterator[Pool]:
    if "NO_POOL" in os.environ:
        raise OSError("no room")
    yield Pool(os.getpid())
    log.info("pool left")
    if "BAD_END" in os.environ:
        raise OSError("does not close")


@lifespan
async def session() -> AsyncIterator[Session]:
    async with asyncio.TaskGroup() as group:  # must be entered and left in one asyncio task
        made = Session(asyncio.get_running_loop())
        ticking = group.create_task(tick(made))
        yield made
        ticking.cancel()
    log.info("session left")


async def tick(made: Session) -> None:
    while True:
        made.ticks += 1
        await asyncio.sleep(0.01)


@task
async def first(dsn: str) -> int:
    made = current().state(Session)
    assert made.loop is asyncio.get_running_loop()
    assert made.ticks > 0
    await current().async_client.enqueue(second, dsn)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await current().bind(connection).enqueue(third, dsn)
        await connection.rollback()
    return current().state(Pool).pid - os.getpid()


@task
def second(dsn: str) -> int:
    assert current().client is current().client
    current().client.enqueue(third, dsn)
    return current().state(Pool).pid - os.getpid()


@task
async def third(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await current().bind(connection).enqueue(last)
        await current().complete(connection)


@task
async def last() -> None: ...


coroutines = [first, third, last]
