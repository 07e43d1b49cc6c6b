"""Migrates a database and enqueues into it, as a program of any operating system does.

    python tests/acceptance/producer.py

CI runs it on Windows and macOS, and test_without_posix.py where Python lacks what Windows lacks.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from rowlease import AsyncClient, Client, task
from rowlease.cli import cli


@task
def add(n: int) -> int:
    return n


async def enqueue_by_async_client() -> None:
    async with AsyncClient() as client:
        handle = await client.enqueue(add, 4)
        assert await handle.status() == "Pending"


def enqueue() -> None:
    with Client() as client:
        later = add.with_options(delay=timedelta(hours=1), priority=3)
        handles = [client.enqueue(add, 1), client.enqueue(later, 2)]
        client.enqueue_many([add.request(3)], batch_id="May")
        assert [handle.status() for handle in handles] == ["Pending", "Scheduled"]
        batch = client.batch("May").read()
        assert batch
        assert batch.num_requests == 1
        cancelled = client.requests.cancel("queue:default status:scheduled")
        assert cancelled.num_requests == 1


if __name__ == "__main__":
    cli(["migrate"], standalone_mode=False)
    enqueue()
    asyncio.run(enqueue_by_async_client())
    print("migrated and enqueued")  # noqa: T201
