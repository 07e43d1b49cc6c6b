"""Calls of an AsyncClient that are right. mypy and pyright accept each, and each enqueues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from rowlease import AsyncHandle, AsyncProducer, untyped_request
from tests.typing.tasks import (
    Colour,
    Mail,
    Size,
    charge,
    clean_up,
    crop,
    odd_names,
    resize,
    send,
    tag,
)

ORDER = UUID(int=7)


async def calls(client: AsyncProducer) -> None:
    await client.enqueue(resize, "a.png", width=200, colour=Colour.GREY)
    await client.enqueue(clean_up)
    await client.enqueue(crop, "a.png", size=Size(2, 3), corners=[(1, 2), (3, 4)])
    await client.enqueue(send, mail=Mail(to="ann"), at=datetime(2026, 1, 1, tzinfo=UTC))
    await client.enqueue(charge, ORDER, amount=Decimal(3), note=b"thanks")
    await client.enqueue(odd_names, task="t", queue="q", priority=3, receipt="r", self=4)
    await client.enqueue(tag, "a.png", red=1, blue=2)
    await client.enqueue(resize.with_options(delay=timedelta(hours=1), queue="x"), "a.png", 200)
    await client.enqueue(charge.with_options(receipt="order 7"), ORDER, Decimal(3))
    await client.enqueue_many([resize.request(path, width=200) for path in ("a.png", "b.png")])
    await client.enqueue_many((clean_up.request() for _ in range(3)), receipt="night", wait=None)
    await client.enqueue_untyped("resize", {"image": "a.png", "width": 200}, priority=3)
    await client.enqueue_many([untyped_request("resize", {"image": "a"}, queue="images")])
    handle: AsyncHandle[Size] = await client.enqueue(resize, "a.png", 200)
    sent: AsyncHandle[bool] = await client.enqueue(send, Mail(to="ann"))
