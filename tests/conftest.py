"""One server for the whole run, one fresh database for each test.

The server comes from ROWLEASE_TEST_PG_DSN, else from testcontainers when a Docker engine answers,
else it is the embedded one with its safety off. A test database is a copy of a migrated template
(about 15 ms), so that no test sees another's rows.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings

from rowlease.store import Store, migrate, open_store
from tests import machine
from tests.servers import embedded_server, memory_or_disk
from tests.turns import Turns, longest_first

#: No test fails because the machine is busy: an example may take as long as it takes.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

#: Replaces the routine `now`: `set rowlease.frozen_now = '...'` stops the clock of a connection.
FROZEN_CLOCK = """
create or replace function rowlease.now() returns timestamptz language sql volatile
return coalesce(nullif(current_setting('rowlease.frozen_now', true), '')::timestamptz,
                clock_timestamp())
"""

#: Databases that tests have left and that still exist, by the server's DSN.
LEFT: dict[str, list[str]] = {}


def pytest_configure(config: pytest.Config) -> None:
    if machine.is_bare():
        links = tempfile.TemporaryDirectory(prefix="rowlease-bare-")
        config.add_cleanup(links.cleanup)
        machine.hide(Path(links.name))
    # pytest makes `tmp_path` there: dozens of tests copy a server's folder of 1,300 files.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_or_disk()))
    # What a shell starts in the background ignores Ctrl-C, and so would all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process more than there are cores, because tests wait half of their time."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Turns | None:
    return Turns(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes
        longest_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each reason to skip; it names the command that brings what is missing."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("skipped")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    """A PostgreSQL server on which databases may be created."""
    if given := os.environ.get("ROWLEASE_TEST_PG_DSN"):
        yield given
        with psycopg.connect(given, autocommit=True) as connection:
            drop_left(connection, LEFT.get(given, []))
    elif machine.docker_answers():
        from testcontainers.community.postgres import PostgresContainer

        with PostgresContainer("postgres:17-alpine", driver=None) as container:
            yield container.get_connection_url()
    else:
        with embedded_server() as dsn:
            yield dsn


@pytest.fixture(scope="session")
def template(server_dsn: str) -> Iterator[str]:
    """The name of a migrated database to copy; its clock can be frozen."""
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(FROZEN_CLOCK)
        yield name


@pytest.fixture
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A fresh, migrated database of the test's own."""
    with scratch_database(server_dsn, template) as name:
        yield in_database(server_dsn, name)


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    """A store on the test's own database, with the queue `default`."""
    with closing(open_store(dsn)) as opened:
        yield opened


@pytest.fixture
def sql(dsn: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Look at the tables as a DBA does: `sql("select ...", arguments)` gives all rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def run(text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
            cursor = connection.execute(text, arguments)
            return [] if cursor.description is None else cursor.fetchall()

        yield run


@contextmanager
def scratch_database(server_dsn: str, template: str | None = None) -> Iterator[str]:
    """A database that is dropped some time afterwards, even with open connections."""
    name = f"rowlease_test_{secrets.token_hex(6)}"
    copy = f" template {template} strategy file_copy" if template else ""
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}{copy}")
        try:
            yield name
        finally:
            left = LEFT.setdefault(server_dsn, [])
            left.append(name)
            drop_left(connection, left, keep=1)


def drop_left(connection: psycopg.Connection, left: list[str], keep: int = 0) -> None:
    """Drop all but the latest of the databases that tests have left.

    The server checks every 100 ms whether connections have ended. Those of the latest database have
    not ended yet, so the next test drops it without waiting.
    """
    while len(left) > keep:
        connection.execute(f"drop database {left.pop(0)} with (force)".encode())


def in_database(server_dsn: str, name: str) -> str:
    url = sa.make_url(server_dsn).set(database=name)
    return url.render_as_string(hide_password=False)


def free_port() -> int:
    """A port below those that the kernel assigns, so that no other program gets it.

    The kernel assigns ports from 32768 on. The module random would return the same port in every
    process of the run, because they share its seed.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parents[1]
