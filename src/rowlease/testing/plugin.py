"""Fixtures for pytest, which finds this module by its entry point.

Pytest loads this module in every run, so each fixture imports modules only when it is used.

rowlease_server   the DSN of the PostgreSQL server: ROWLEASE_TEST_DSN, or else that of an embedded
                  server without durability
rowlease_dsn      the DSN of a fresh, migrated database on this server, for one test
rowlease_client   an open Client on this database
rowlease_async_client
                  an open AsyncClient on this database
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rowlease.client.async_client import AsyncClient
    from rowlease.client.client import Client

#: The environment variable with the DSN of a server on which tests may create and drop databases.
VARIABLE = "ROWLEASE_TEST_DSN"
#: Settings for a server whose data is not needed after the run.
UNSAFE_BUT_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(scope="session")
def rowlease_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of the PostgreSQL server on which this run of pytest creates databases."""
    if given := os.environ.get(VARIABLE):
        yield given
        return
    from rowlease.embedded import embedded

    home = tmp_path_factory.mktemp("rowlease")
    with embedded(home, settings=UNSAFE_BUT_FAST) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def rowlease_template(rowlease_server: str) -> Iterator[str]:
    """The DSN of a migrated database, which is copied for each test.

    To configure queues for all tests, configure them here. When a test begins, no connection to
    this database may be open.
    """
    from rowlease.store import migrate
    from rowlease.store.postgresql.scratch import scratch_database

    with scratch_database(rowlease_server) as dsn:
        migrate(dsn)
        yield dsn


@pytest.fixture
def rowlease_dsn(rowlease_server: str, rowlease_template: str) -> Iterator[str]:
    """The DSN of a fresh, migrated database, which is dropped at the end of the test."""
    from rowlease.store.postgresql.scratch import scratch_database

    with scratch_database(rowlease_server, rowlease_template) as dsn:
        yield dsn


@pytest.fixture
def rowlease_client(rowlease_dsn: str) -> Iterator[Client]:
    """An open client on the test's own database."""
    from rowlease.client.client import Client

    with Client(rowlease_dsn) as client:
        yield client


@pytest.fixture
def rowlease_async_client(rowlease_dsn: str) -> Iterator[AsyncClient]:
    """An open client for asyncio on the test's own database, for any event loop."""
    import asyncio
    from contextlib import closing

    from rowlease.client.async_client import AsyncClient

    client = AsyncClient(rowlease_dsn)
    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(client.open())
        yield client
        loop.run_until_complete(client.close())
