"""The results of a batch: those of one task, typed, in pages."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from rowlease import AsyncClient, Client, task
from rowlease.client import batch as batches
from rowlease.client.batch import Batch
from rowlease.client.batch_reads import BatchReads
from rowlease.model import Failure
from tests.contract.sessions import Session


@task
def day(number: int) -> date:
    return date(2026, 1, number)


@task
def other() -> None: ...


def finished(dsn: str, store: Session, count: int) -> list[date]:
    """Complete a batch of so many days, and requests that do not count."""
    with Client(dsn) as client:
        client.enqueue_batch([day.s(1)], batch_id="another")
        members = [day.s(n) for n in range(1, count + 1)]
        client.enqueue_batch([*members, other.s(), day.s(28)], batch_id="b")
    store.freeze(None)
    held = store.claim(limit=100)
    dead = held.pop()
    assert dead.payload == '{"number":28}'
    store.fail([dead], [Failure("broken", dead=True)])
    store.complete(held, [None if one.kind == "other" else day.run(one.payload) for one in held])
    return [date(2026, 1, n) for n in range(count, 0, -1)]


@pytest.mark.parametrize("per_page", [1, 2, 3, 100])
def test_the_results_of_a_task_come_in_pages_the_newest_first(
    dsn: str, store: Session, per_page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = finished(dsn, store, 5)
    monkeypatch.setattr(batches, "RESULTS_PER_PAGE", per_page)
    with Client(dsn) as client:
        assert list(client.batch("b").results(day)) == wanted
        assert list(client.batch("b").results(other)) == [None]
        assert list(client.batch("unknown").results(day)) == []


def test_no_page_is_read_after_the_last_request_of_the_batch(
    dsn: str, store: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(dsn, store, 5)
    monkeypatch.setattr(batches, "RESULTS_PER_PAGE", 3)
    reads: list[Any] = []
    find = type(store).find_requests

    def counted(own: Any, **given: Any) -> Any:
        reads.append(given)
        return find(own, **given)

    monkeypatch.setattr(type(store), "find_requests", counted)
    assert len(list(Batch("b", BatchReads(store)).results(day))) == 5
    assert len(reads) == 2


def test_the_async_client_has_the_same_results(dsn: str, store: Session) -> None:
    wanted = finished(dsn, store, 3)

    async def work() -> None:
        async with AsyncClient(dsn) as client:
            assert [one async for one in client.batch("b").results(day)] == wanted
            batch = await client.enqueue_batch([day.s(1), day.s(2)], then=other.request())
            state = await batch.read()
            assert state
            assert state.num_requests == 2
            followed = await batch.then.read()
            assert followed
            assert followed.kind == "other"

    asyncio.run(work())
