"""Fixtures for pytest, which finds this module by its entry point.

Each fixture imports what it needs when it is used, because pytest loads this module in every run.

rowlease_server   a PostgreSQL server: ROWLEASE_TEST_DSN, else an embedded one, with durability off
rowlease_dsn      a fresh, migrated database on it, for one test
rowlease_client   an open Client on that database
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rowlease.client import Client

#: The DSN of a server on which databases may be created and dropped.
VARIABLE = "ROWLEASE_TEST_DSN"
#: For a server whose data is not needed after the run.
UNSAFE_BUT_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(scope="session")
def rowlease_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a PostgreSQL server on which databases may be created, for the whole run."""
    if given := os.environ.get(VARIABLE):
        yield given
        return
    from rowlease.embedded import embedded

    home = tmp_path_factory.mktemp("rowlease")
    with embedded(home, settings=UNSAFE_BUT_FAST) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def rowlease_template(rowlease_server: str) -> Iterator[str]:
    """A migrated database that is copied for each test; configure queues for all tests here.

    It must have no open connection while a test begins.
    """
    from rowlease.store import migrate
    from rowlease.store.postgresql.scratch import scratch_database

    with scratch_database(rowlease_server) as dsn:
        migrate(dsn)
        yield dsn


@pytest.fixture
def rowlease_dsn(rowlease_server: str, rowlease_template: str) -> Iterator[str]:
    """A fresh, migrated database for one test, dropped after it."""
    from rowlease.store.postgresql.scratch import scratch_database

    with scratch_database(rowlease_server, rowlease_template) as dsn:
        yield dsn


@pytest.fixture
def rowlease_client(rowlease_dsn: str) -> Iterator[Client]:
    """An open client on the test's own database."""
    from rowlease.client import Client

    with Client(rowlease_dsn) as client:
        yield client
