"""Declarations that are wrong: headers, rates, batches and others. Type checkers refuse each."""

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
from tests.typing.tasks import (
    Colour,
    Tenants,
    clean_up,
    context_of,
    resize,
    send_later,
)


def calls(client: Client) -> None:
    client.enqueue(resize, "a.png", 200, headers={"tenant": "acme"})
    client.enqueue(resize.with_options(headers={"tenant": 7}), "a.png", 200)
    client.enqueue(resize.with_options(headers=["tenant"]), "a.png", 200)
    client.enqueue(resize.with_options(header={"tenant": "acme"}), "a.png", 200)
    client.enqueue_many([clean_up.request()], headers={"tenant": "acme"})
    client.enqueue_untyped("resize", {"image": "a.png"}, headers="tenant=acme")
    client.enqueue_many([untyped_request("resize", {}, headers={1: "acme"})])
    client.enqueue(send_later, "ann", after=5.5j)
    client.enqueue(send_later, "ann", snooze=timedelta(minutes=5))
    unnamed = Snooze()
    named = Snooze(timedelta(minutes=5), why="closed")
    misspelt = task(qeue="mail")(clean_up)
    request: TaskRequest[Colour] = resize.with_options(headers={}).request("a.png", 2)
    later: Handle[int] = client.enqueue(send_later, "ann", after=timedelta(minutes=5))
    seconds = Snooze(300)
    after: int = Snooze(timedelta(minutes=5)).after
    rate = Queue("mail", rate=100)
    period = Queue("mail", rate=("100", "1m"))
    policy = Queue("mail", policy="fair")
    middleware = add_middleware(print)
    unmade = add_middleware(Tenants)
    tenant: int = context_of().headers["tenant"]
    client.enqueue(clean_up, batch_id="May")
    client.enqueue_many([clean_up.request()], batch_id=7)
    client.enqueue(clean_up.with_options(after=timedelta(minutes=5)))
    client.enqueue_many([clean_up.request()], callback=clean_up)
    complete: str = client.batch("May").wait().num_complete
    state = client.batch("May").wait(60)
