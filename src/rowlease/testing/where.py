"""The objects by which a test may specify its database."""

from __future__ import annotations

from typing import TypeAlias

from rowlease.client.async_client import AsyncClient
from rowlease.client.client import Client
from rowlease.store import Store

Where: TypeAlias = Client | AsyncClient | Store


def store_of(where: Where) -> Store:
    """The store of a client. The store's calls block, even in a coroutine."""
    return where.store if isinstance(where, Client | AsyncClient) else where
