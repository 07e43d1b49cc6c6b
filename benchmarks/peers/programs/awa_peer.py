"""Awa's Python package (its engine is Rust)."""

from __future__ import annotations

from dataclasses import dataclass

from awa import AsyncClient
from reporting import DSN, SETTINGS, Reporter, main, say, steadily, timed

#: Its newer engine; `migrate` alone leaves the canonical one in force.
QUEUE_STORAGE = SETTINGS.get("queue_storage", False)


@dataclass
class Noop:
    at: float = 0.0


async def install() -> None:
    client = AsyncClient(DSN)
    await client.migrate()
    if QUEUE_STORAGE:
        await client.install_queue_storage(schema="awa")


async def enqueue(count: int, size: int) -> None:
    client = AsyncClient(DSN)
    if size == 1:
        await timed(count, 1, lambda _: client.insert(Noop(), queue="bench"))
    else:
        many = client.enqueue_many_copy if QUEUE_STORAGE else client.insert_many_copy
        await timed(count, size, lambda n: many([Noop()] * n, queue="bench"))


async def send(rate: float, seconds: float) -> None:
    client = AsyncClient(DSN)
    await steadily(rate, seconds, lambda at: client.insert(Noop(at), queue="bench"))


async def work() -> None:
    client = AsyncClient(DSN, **SETTINGS.get("client", {}))
    reporter = Reporter()

    @client.task(Noop, queue="bench")
    async def noop(job) -> None:
        reporter.began(job.args.at or None)

    await client.start([("bench", SETTINGS.get("workers", 50))])
    say("ready")
    await reporter.report()


main({"install": install, "enqueue": enqueue, "send": send, "work": work})
