"""The forms in which a test may give its database."""

from __future__ import annotations

from typing import TypeAlias

from rowlease.async_client import AsyncClient
from rowlease.client import Client
from rowlease.store import Store

Where: TypeAlias = Client | AsyncClient | Store


def store_of(where: Where) -> Store:
    """The store of a client. Its calls block, also in a coroutine."""
    return where.store if isinstance(where, Client | AsyncClient) else where
