"""Calls of an AsyncClient that are wrong. mypy and pyright refuse each; nothing is written.

The last four run: what is wrong is the type of their results, or that nothing awaits them.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from rowlease import AsyncHandle, AsyncProducer, Handle
from tests.typing.tasks import (
    Mail,
    Size,
    charge,
    clean_up,
    crop,
    plain,
    resize,
    send,
    tag,
)

ORDER = UUID(int=7)


async def calls(client: AsyncProducer) -> None:
    await client.enqueue(resize, "a.png")
    await client.enqueue(resize, "a.png", "wide")
    await client.enqueue(resize, "a.png", widht=200)
    await client.enqueue(resize, "a.png", 200, priority=9)
    await client.enqueue(clean_up, 1)
    await client.enqueue(crop, "a.png", (2, 3))
    await client.enqueue(send, Mail(to="ann"), at="tomorrow")
    await client.enqueue(charge, 7, Decimal(3))
    await client.enqueue(tag, "a.png", red="much")
    await client.enqueue(plain, "a.png")
    await client.enqueue(resize.with_options(prio=9), "a.png", 200)
    await client.enqueue_many([resize])
    await client.enqueue_many([clean_up.request()], priority=3)
    await client.enqueue_untyped(resize, {"image": "a.png"})
    client.enqueue(clean_up)
    sized: AsyncHandle[str] = await client.enqueue(resize, "a.png", 200)
    late: AsyncHandle[Size] = client.enqueue(resize, "a.png", 200)
    other: Handle[Size] = await client.enqueue(resize, "a.png", 200)
