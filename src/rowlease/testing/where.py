"""The objects by which a test may specify its database."""

from __future__ import annotations

from typing import TypeAlias

from rowlease.client.async_client import AsyncClient
from rowlease.client.client import Client
from rowlease.errors import ConfigError
from rowlease.store import Store

Where: TypeAlias = Client | AsyncClient | Store


def store_of(where: Where) -> Store:
    """The store of a client. The store's calls block, even in a coroutine.

    Raises:
        ConfigError: the argument is nothing of that kind, such as a task.
    """
    found = where.store if isinstance(where, Client | AsyncClient) else where
    if not isinstance(found, Store):
        raise ConfigError(
            f"where is a {type(found).__name__}; it must be an open Client, AsyncClient or Store"
        )
    return found
