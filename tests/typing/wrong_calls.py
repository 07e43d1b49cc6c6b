"""Thirty calls that are wrong. mypy and pyright refuse each, and at run time nothing is written.

The last two run: what is wrong is the type of their results.
"""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from rowlease import Handle, Producer
from tests.typing.tasks import (
    Mail,
    Size,
    charge,
    clean_up,
    crop,
    odd_names,
    plain,
    resize,
    send,
    tag,
)

ORDER = UUID(int=7)


def calls(client: Producer) -> None:
    client.enqueue(resize)
    client.enqueue(resize, "a.png")
    client.enqueue(resize, "a.png", "wide")
    client.enqueue(resize, "a.png", 200, 300)
    client.enqueue(resize, "a.png", widht=200)
    client.enqueue(resize, "a.png", 200, image="b.png")
    client.enqueue(resize, {"image": "a.png", "width": 200})
    client.enqueue(resize, "a.png", 200, colour="purple")
    client.enqueue(resize, "a.png", 200, priority=9)
    client.enqueue(resize, None, 200)
    client.enqueue(clean_up, 1)
    client.enqueue(crop, "a.png", (2, 3))
    client.enqueue(crop, "a.png", Size(2, 3), corners=[(1, 2, 3)])
    client.enqueue(send, "ann")
    client.enqueue(send, Mail(to="ann"), at="tomorrow")
    client.enqueue(charge, 7, Decimal(3))
    client.enqueue(charge, ORDER, amount=None)
    client.enqueue(tag, "a.png", red="much")
    client.enqueue(odd_names, "t", "q", 3)
    client.enqueue(plain, "a.png")
    client.enqueue("resize", "a.png", 200)
    client.enqueue(resize.with_options(priority="high"), "a.png", 200)
    client.enqueue(resize.with_options(prio=9), "a.png", 200)
    client.enqueue_many([resize.request("a.png")])
    client.enqueue_many([resize])
    client.enqueue_many([clean_up.request()], priority=3)
    client.enqueue_many(resize.request("a.png", 200))
    client.enqueue_untyped(resize, {"image": "a.png"})
    sized: Handle[str] = client.enqueue(resize, "a.png", 200)
    sent: Handle[str] = client.enqueue(send, Mail(to="ann"))
