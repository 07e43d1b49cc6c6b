"""The server that a benchmark runs on, and its databases; what every table says of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from rowlease.store.embedded import embedded
from rowlease.store.migrate import migrate
from rowlease.store.scratch import scratch_database

#: What decides over speed, and must be seen beside every figure.
SETTINGS = ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size", "full_page_writes")


def add_dsn(parser: argparse.ArgumentParser) -> None:
    """The option --dsn."""
    parser.add_argument(
        "--dsn",
        default=os.environ.get("ROWLEASE_TEST_PG_DSN"),
        help="a PostgreSQL in which databases may be made; default: an embedded one",
    )


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """The DSN of a server, its version and settings printed."""
    with ExitStack() as stack:
        place = dsn or stack.enter_context(embedded())
        with psycopg.connect(place) as connection:
            ((version,),) = connection.execute("show server_version").fetchall()
            said = [
                f"{name}={connection.execute(f'show {name}').fetchall()[0][0]}" for name in SETTINGS
            ]
        print(f"PostgreSQL {version}, {', '.join(said)}; {os.cpu_count()} cores")
        yield place


@contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """The DSN of a new, migrated database; gone afterwards."""
    with scratch_database(server_dsn) as dsn:
        migrate(dsn)
        yield dsn
