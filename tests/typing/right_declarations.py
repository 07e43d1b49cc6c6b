"""Declarations that are right: headers, rates, batches and others. Type checkers accept each."""

from __future__ import annotations

from datetime import timedelta

from rowlease import (
    Client,
    Handle,
    Queue,
    Snooze,
    TaskRequest,
    add_middleware,
    task,
    untyped_request,
)
from rowlease.model import BatchState
from tests.typing.tasks import (
    Size,
    Tenants,
    Timer,
    clean_up,
    context_of,
    resize,
    send_later,
)


def calls(client: Client) -> None:
    client.enqueue(resize.with_options(headers={"tenant": "acme"}), "a.png", 200)
    client.enqueue(clean_up.with_options(headers={}).with_options(priority=3))
    client.enqueue_many([clean_up.with_options(headers={"a": "b"}).request()], receipt="r")
    client.enqueue_untyped("resize", {"image": "a.png"}, headers={"tenant": "acme"})
    request: TaskRequest[Size] = resize.with_options(headers={"a": "b"}).request("a.png", 2)
    client.enqueue_many([untyped_request("resize", {"image": "a"}, headers={"a": "b"})])
    later: Handle[str] = client.enqueue(send_later, "ann", after=timedelta(minutes=5))
    snooze: Exception = Snooze(timedelta(minutes=5), "the shop is closed")
    unexplained = Snooze(after=timedelta(seconds=1))
    after: timedelta = Snooze(timedelta(minutes=5)).after
    limited = Queue("mail", rate="100/1m", group_rate="5/1s")
    free = Queue("mail", rate=None, max_in_flight=20, policy="aging")
    shared = task(queue=limited_queue())(clean_up_now)
    add_middleware(Tenants())
    timer: Timer = Timer({})
    tenant: str = context_of().headers["tenant"]
    client.enqueue_many([clean_up.request()], batch_id="May")
    client.enqueue(resize.with_options(batch_id="May", priority=3), "a.png", 200)
    client.enqueue(clean_up.with_options(after="May"))
    client.enqueue_many((clean_up.request() for _ in range(2)), batch_id="June", after="May")
    complete: int = client.batch("May").wait(timedelta(hours=1)).num_complete
    state: BatchState | None = client.batch("May").read()


def limited_queue() -> Queue:
    return Queue("mail", rate="100/1m")


def clean_up_now() -> int:
    return 0
