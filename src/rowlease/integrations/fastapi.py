"""FastAPI and Starlette: a client that is open while the application runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from rowlease.client.async_client import AsyncClient
from rowlease.client.sending import RETRY_FOR


class Rowlease:
    """The lifespan of an application, and a dependency that gives its endpoints the client.

        rowlease = Rowlease()
        app = FastAPI(lifespan=rowlease.lifespan)

        @app.post("/images/{path}")
        async def add(path: str, client: Annotated[AsyncClient, Depends(rowlease)]) -> int:
            return (await client.enqueue(resize, path, width=200)).request_id

    Args:
        dsn, retry_for: the same as for `Client`.

    Attributes:
        client: the client. It is open while the application runs.
    """

    def __init__(self, dsn: str | None = None, *, retry_for: timedelta = RETRY_FOR) -> None:
        self.client = AsyncClient(dsn, retry_for=retry_for)

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncIterator[None]:
        """Open the client until the application ends."""
        async with self.client:
            yield

    async def __call__(self) -> AsyncClient:
        """The client, for `Depends`."""
        return self.client
