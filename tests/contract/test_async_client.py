"""The client for asyncio: the answers of the synchronous one, and no thread for what waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

import psutil
import pytest

from rowlease import AsyncClient, NoResult, QueueFull, task
from rowlease.client.call_threads import MAX_CALL_THREADS
from rowlease.errors import InvalidRequest
from rowlease.model import Outcome
from rowlease.tasks.requests import untyped_request
from tests.contract.sessions import Session

Another = Callable[[], Session]
LONG = timedelta(seconds=60)


@task
def double(number: int) -> int:
    return 2 * number


def on_client(dsn: str, work: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine with an open client."""

    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await work(client)

    asyncio.run(main())
    for thread in threading.enumerate():  # a cancelled call may still change the database
        if thread.name.startswith("rowlease-async"):
            thread.join(60)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ends(waiting: Awaitable[Any], seconds: float = 60) -> Any:
    async with asyncio.timeout(seconds):
        return await waiting


def finish(store: Session, count: int) -> int:
    """Claim so many requests and complete them; how many there were."""
    held = store.dequeue("one", ["default"], count).requests
    store.complete(held, [str(request.request_id) for request in held])
    return len(held)


def test_it_has_the_answers_of_the_synchronous_client(dsn: str, store: Session) -> None:
    store.freeze(None)

    async def work(client: AsyncClient) -> None:
        one = await client.enqueue(double.with_options(dedup_key="k", priority=3), 4)
        again = await client.enqueue(double.with_options(dedup_key="k"), 4)
        many = await client.enqueue_many(double.request(n) for n in range(3))
        plain = await client.enqueue_untyped("other", {"a": 1}, priority=1)
        assert (one.outcome, again.outcome, again.request_id) == (
            Outcome.OK,
            Outcome.DUPLICATE,
            one.request_id,
        )
        assert [handle.outcome for handle in many] == [Outcome.OK] * 3
        assert await one.status() == "Pending"
        assert await plain.cancel() is Outcome.OK
        with pytest.raises(NoResult, match="it was cancelled"):
            await plain.result()
        with pytest.raises(TimeoutError, match="is not finished after"):
            await one.result(timedelta(0))
        assert finish(store, 9) == 4
        assert await one.result() == one.request_id
        assert await client.get(one.request_id, double).result(LONG) == one.request_id
        read = await client.get(many[0].request_id).read()
        assert read
        assert (read.payload, read.status) == ('{"number":0}', "Complete")
        assert await one.requeue() is Outcome.NOT_FOUND
        await client.run_sync(lambda sync: sync.queues.pause("default"))
        assert (await client.run_sync(lambda sync: sync.queues.show("default"))).paused

    on_client(dsn, work)


def test_hundreds_wait_for_results_without_a_thread_each(dsn: str, store: Session) -> None:
    store.freeze(None)

    async def work(client: AsyncClient) -> None:
        before = psutil.Process().num_threads()
        handles = await client.enqueue_many(double.request(n) for n in range(500))
        results = [asyncio.create_task(handle.result(LONG)) for handle in handles]
        await until(lambda: client.store.finished.num_waiting == 500)
        # The client's threads, another for each call (pyodbc), and one that listens.
        assert psutil.Process().num_threads() <= before + 2 * MAX_CALL_THREADS + 1
        while await asyncio.to_thread(finish, store, 100):
            pass
        assert await ends(asyncio.gather(*results)) == [handle.request_id for handle in handles]
        assert client.store.finished.num_waiting == 0

    on_client(dsn, work)


def test_hundreds_wait_for_room_and_hold_up_nobody(dsn: str, store: Session) -> None:
    store.freeze(None)
    store.configure_queue("default", capacity=1)
    store.configure_queue("other")

    async def work(client: AsyncClient) -> None:
        waiting = double.with_options(wait=LONG)
        calls = [
            asyncio.create_task(client.enqueue(waiting, n)) for n in range(3 * MAX_CALL_THREADS)
        ]
        await until(lambda: client.store.room.num_waiting == 1)
        other = await ends(client.enqueue(double.with_options(queue="other"), 1))
        assert other.outcome is Outcome.OK
        for call in calls[3:]:
            call.cancel()
        for _ in range(3):
            await until(lambda: finish(store, 1) == 1)
        for call in calls:
            with suppress(asyncio.CancelledError, QueueFull):
                assert (await ends(call)).outcome is Outcome.OK

    on_client(dsn, work)


def test_what_waits_when_the_client_is_closed_ends_with_a_sentence(
    dsn: str, store: Session
) -> None:
    store.freeze(None)
    waits: list[asyncio.Task[Any]] = []

    async def work(client: AsyncClient) -> None:
        handles = await client.enqueue_many(
            [double.request(n) for n in range(50)], batch_id="batch"
        )
        waits.extend(asyncio.create_task(handle.result(LONG)) for handle in handles)
        waits.append(asyncio.create_task(client.batch("batch").wait(LONG)))
        await until(lambda: client.store.finished.num_waiting == 50)

    async def main() -> None:
        async with AsyncClient(dsn) as client:
            await work(client)
        for ended in await ends(asyncio.gather(*waits, return_exceptions=True)):
            assert isinstance(ended, InvalidRequest)
            assert "the client was closed" in str(ended)

    asyncio.run(main())


def test_a_cancelled_enqueue_is_repeated_with_its_receipt(
    dsn: str, store: Session, another: Another
) -> None:
    store.configure_queue("default", capacity=9)
    holder = another()
    for each in (store, holder):
        each.freeze(None)

    async def work(client: AsyncClient) -> None:
        mine = double.with_options(receipt="mine")
        holder.begin()
        holder.put()  # locks the settings of a queue with a capacity
        call = asyncio.create_task(client.enqueue(mine, 1))
        await asyncio.wait({call}, timeout=0.2)
        assert not call.done()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        holder.rollback()
        first = await client.enqueue(mine, 1)
        assert first.outcome in (Outcome.OK, Outcome.REPEAT)
        again = await client.enqueue(mine, 1)
        assert (again.outcome, again.request_id) == (Outcome.REPEAT, first.request_id)

    on_client(dsn, work)
    assert len(store.rows("requests", "request_id")) == 1


def test_in_a_synchronous_transaction_it_is_the_synchronous_client(
    dsn: str, store: Session
) -> None:
    async def work(client: AsyncClient) -> None:
        with closing(store.driver_connection()) as connection:
            with pytest.raises(InvalidRequest, match="must not wait"):
                await client.bind(connection).enqueue_untyped("a", wait=LONG)
            handle = await client.run_sync(
                lambda sync: sync.bind(connection).enqueue(double, 1).request_id
            )
            assert await client.get(handle).status() is None
            connection.commit()
            assert await client.get(handle).status() == "Pending"

    on_client(dsn, work)


def test_it_says_how_it_is_used() -> None:
    client = AsyncClient()
    for call in (
        lambda: client.enqueue_many([untyped_request("a")]),
        lambda: client.run_sync(lambda sync: sync.queues),
    ):
        with pytest.raises(InvalidRequest, match="`async with` block"):
            asyncio.run(call())
    with pytest.raises(InvalidRequest, match="`async with` block"):
        client.get(1)
    with pytest.raises(InvalidRequest, match="`async with` block"):
        client.bind(None)
