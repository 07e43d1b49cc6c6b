"""Many programs wait for batches: they share their reads, and each gets its own batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

import pytest

from rowlease import AsyncClient
from rowlease.client.batch import Batch
from rowlease.client.batch_reads import READ_SECONDS, BatchReads
from rowlease.client.call_threads import CallThreads
from rowlease.errors import InvalidRequest
from rowlease.model import BatchState, NewRequest
from tests.contract.sessions import Session

P = ParamSpec("P")
T = TypeVar("T")

LONG = timedelta(seconds=60)
WAITING = 100


class InLoop(CallThreads):
    """Makes the calls in the event loop: the store of a test has one connection."""

    async def call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs)


IN_LOOP = InLoop()


@pytest.fixture(autouse=True)
def real_time(store: Session) -> None:
    store.freeze(None)


def put(store: Session, batch_id: str) -> None:
    store.enqueue_many("default", [NewRequest(kind="x")], batch_id=batch_id)


def test_a_hundred_that_wait_share_their_reads_and_get_their_own_batch(
    dsn: str, store: Session
) -> None:
    reads: list[int] = []
    began = time.monotonic()

    async def work() -> None:
        async with AsyncClient(dsn) as client:
            names = [f"b{number}" for number in range(WAITING)]
            for name in names:
                put(store, name)
            listed = client.store.list_batches

            def counting(*batch_ids: str, **given: Any) -> list[BatchState]:
                reads.append(len(batch_ids))
                return listed(*batch_ids, **given)

            client.store.list_batches = counting  # type: ignore[method-assign]
            waits = [asyncio.create_task(client.batch(name).wait(LONG)) for name in names]
            while max(reads, default=0) < WAITING:  # noqa: ASYNC110 - several reads, no event
                await asyncio.sleep(0.01)
            while claimed := await asyncio.to_thread(store.claim, limit=50):
                await asyncio.to_thread(store.complete, claimed)
            found = await asyncio.gather(*waits)
            assert [one.batch_id for one in found] == names
            assert all(one.finished_time and one.num_complete == 1 for one in found)

    asyncio.run(work())
    # Each looks once at the beginning. Reads of all follow twice a second. A batch is read again
    # when it is finished.
    assert len(reads) <= WAITING + 2 * (1 + (time.monotonic() - began) / READ_SECONDS)


def test_a_wait_that_began_late_is_not_told_of_an_earlier_read(store: Session) -> None:
    reads = BatchReads(store)
    put(store, "one")
    put(store, "two")
    one, two = (Batch(name, reads) for name in ("one", "two"))
    with suppress(TimeoutError):
        one.wait(timedelta(seconds=0.01))
    with pytest.raises(TimeoutError, match='"two" is not finished'):
        two.wait(timedelta(seconds=0.01))
    with pytest.raises(InvalidRequest, match='no batch "three"'):
        Batch("three", reads).wait(LONG)


def test_a_wait_for_a_batch_that_was_made_again_is_not_told_of_the_old_one(store: Session) -> None:
    reads = BatchReads(store)
    put(store, "b")

    async def work() -> None:
        waiting = asyncio.create_task(Batch("b", reads).wait_in(IN_LOOP, LONG))
        while not len(reads._waiting):  # noqa: ASYNC110 - another thread registers
            await asyncio.sleep(0.01)
        store.complete(store.claim())
        assert (await waiting).finished_time

    asyncio.run(work())
    store.remove("batch", batch_id="b")
    put(store, "b")
    with pytest.raises(TimeoutError, match='"b" is not finished'):
        Batch("b", reads).wait(timedelta(seconds=0.01))


def test_a_batch_that_is_dropped_meanwhile_ends_the_wait(store: Session) -> None:
    put(store, "b")
    reads = BatchReads(store)

    async def work() -> None:
        waiting = asyncio.create_task(Batch("b", reads).wait_in(IN_LOOP, LONG))
        await asyncio.sleep(0)
        store.remove("batch", batch_id="b")
        with pytest.raises(InvalidRequest, match="may have been dropped"):
            await waiting

    asyncio.run(work())
