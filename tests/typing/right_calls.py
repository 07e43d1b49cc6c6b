"""Thirty calls that are right. mypy and pyright accept each, and each enqueues."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rowlease import Handle, Producer, Task, TaskRequest, untyped_request
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


def calls(client: Producer) -> None:
    client.enqueue(resize, "a.png", 200)
    client.enqueue(resize, "a.png", width=200)
    client.enqueue(resize, image="a.png", width=200, colour=Colour.GREY)
    client.enqueue(clean_up)
    client.enqueue(crop, "a.png", Size(2, 3))
    client.enqueue(crop, "a.png", size=Size(2, 3), corners=[(1, 2), (3, 4)])
    client.enqueue(crop, "a.png", Size(2, 3), None)
    client.enqueue(send, Mail(to="ann"))
    client.enqueue(send, mail=Mail(to="ann"), at=datetime(2026, 1, 1, tzinfo=UTC))
    client.enqueue(charge, ORDER, Decimal("1.10"))
    client.enqueue(charge, ORDER, amount=Decimal(3), note=b"thanks")
    client.enqueue(odd_names, task="t", queue="q", priority=3, receipt="r", self=4)
    client.enqueue(odd_names, "t", "q", 3, "r")
    client.enqueue(tag, "a.png", red=1, blue=2)
    client.enqueue(resize.with_options(priority=9), "a.png", width=200)
    client.enqueue(resize.with_options(delay=timedelta(hours=1), queue="x"), "a.png", 200)
    client.enqueue(send.with_options(dedup_key="ann", group_key="mails"), Mail(to="ann"))
    client.enqueue(charge.with_options(receipt="order 7"), ORDER, Decimal(3))
    client.enqueue(clean_up.with_options(due_time=datetime(2026, 1, 1, tzinfo=UTC)))
    client.enqueue(resize.with_options(max_attempts=1).with_options(priority=2), "a.png", 1)
    client.enqueue_many([resize.request(path, width=200) for path in ("a.png", "b.png")])
    client.enqueue_many((clean_up.request() for _ in range(3)), receipt="night", wait=None)
    client.enqueue_many([crop.request("a", Size(1, 2)), send.request(Mail(to="ann"))])
    client.enqueue_many([clean_up.with_options(priority=3).request()])
    client.enqueue_untyped("resize", {"image": "a.png", "width": 200}, priority=3)
    client.enqueue_many([untyped_request("resize", {"image": "a"}, queue="images")])
    handle: Handle[Size] = client.enqueue(resize, "a.png", 200)
    sent: Handle[bool] = client.enqueue(send, Mail(to="ann"))
    request: TaskRequest[Decimal] = charge.request(ORDER, Decimal(3))
    anything: Task[..., Any] = resize
