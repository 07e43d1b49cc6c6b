"""The client for asyncio without a database: how it opens, and that it lacks nothing."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rowlease import AsyncClient, AsyncHandle, AsyncProducer, Client, Handle, Producer
from rowlease.errors import InvalidRequest, StoreUnavailable


def methods(kind: type[Any]) -> dict[str, list[str]]:
    """The public methods with the names of their parameters."""
    return {
        name: list(inspect.signature(found).parameters)
        for name, found in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }


def test_both_colours_have_the_same_methods() -> None:
    assert methods(AsyncProducer) == methods(Producer)
    of_client, twin = methods(AsyncClient), methods(Client)
    assert of_client.pop("run_sync")  # for `queues`, and whatever else there is
    assert (of_client.pop("over"), twin.pop("over")) == (["client"], ["store"])
    assert of_client == twin
    of_handle = methods(Handle)
    assert of_handle.pop("result_in")
    made = methods(AsyncHandle)
    assert made.pop("of")
    assert made == of_handle


class Connecting:
    """A store that is being opened, until a test lets it be."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.closed = threading.Event()
        self.error: Exception | None = None

    @contextmanager
    def __call__(self, dsn: str | None) -> Iterator[Connecting]:
        self.begun.set()
        self.may_end.wait(60)
        if self.error:
            raise self.error
        try:
            yield self
        finally:
            self.closed.set()


@pytest.fixture
def connecting(monkeypatch: pytest.MonkeyPatch) -> Connecting:
    made = Connecting()
    monkeypatch.setattr("rowlease.client.client.connect", made)
    return made


def test_a_client_whose_opening_is_cancelled_is_closed_once_it_is_open(
    connecting: Connecting,
) -> None:
    client = AsyncClient()

    async def main() -> None:
        opening = asyncio.create_task(client.__aenter__())
        await asyncio.to_thread(connecting.begun.wait, 60)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(main())
    assert not connecting.closed.is_set()
    connecting.may_end.set()
    assert connecting.closed.wait(20)


def test_a_client_that_cannot_be_opened_is_not_open(connecting: Connecting) -> None:
    connecting.error = StoreUnavailable("gone fishing")
    connecting.may_end.set()

    async def main() -> None:
        client = AsyncClient()
        with pytest.raises(StoreUnavailable, match="gone fishing"):
            async with client:
                pass
        with pytest.raises(InvalidRequest, match="`async with` block"):
            await client.enqueue_untyped("a")
        connecting.error = None
        async with client:
            assert client.store
        assert connecting.closed.is_set()

    asyncio.run(main())


def test_a_client_can_be_opened_and_closed_without_a_block(connecting: Connecting) -> None:
    connecting.may_end.set()
    client = Client()
    with pytest.raises(InvalidRequest, match="or call `open`"):
        _ = client.store
    store = client.open().store
    assert client.open().store is store
    client.close()
    client.close()
    assert connecting.closed.is_set()
    with pytest.raises(InvalidRequest, match="is not open"):
        _ = client.store
    connecting.closed.clear()
    assert client.open().store
    client.close()
    assert connecting.closed.is_set()


def test_so_can_a_client_for_asyncio(connecting: Connecting) -> None:
    connecting.may_end.set()

    async def main() -> None:
        client = AsyncClient()
        store = (await client.open()).store
        assert (await client.open()).store is store
        await client.close()
        await client.close()
        assert connecting.closed.is_set()
        with pytest.raises(InvalidRequest, match="or call `open`"):
            _ = client.store
        assert (await client.open()).store
        await client.close()

    asyncio.run(main())
