"""The server that a benchmark runs on, its databases, and its description above each table."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

from benchmarks.peers import cache
from rowlease.embedded import embedded, over_tcp
from rowlease.embedded.binaries import WHEEL, WHEEL_FOLDER
from rowlease.store import migrate
from rowlease.store.postgresql.scratch import scratch_database

#: The settings of the server that benchmarks start if none is given: memory and log for a queue in
#: use. All others are those of the embedded server, and durability is PostgreSQL's default.
OWN_SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "2GB", "max_connections": "200"}
#: The settings that decide the speed, and are printed with every figure.
SETTINGS = (
    "fsync",
    "synchronous_commit",
    "shared_buffers",
    "max_wal_size",
    "full_page_writes",
    "autovacuum_naptime",
)


def add_dsn(parser: argparse.ArgumentParser) -> None:
    """Add the option --dsn."""
    parser.add_argument(
        "--dsn",
        default=os.environ.get("ROWLEASE_TEST_PG_DSN"),
        help="a PostgreSQL server for the databases; default: one of the benchmarks' own",
    )


def programs() -> Path:
    """Where pgbench and psql are: those of the embedded server, or else of the PATH."""
    found = find_spec(WHEEL)
    for root in (found and found.submodule_search_locations) or ():
        if (folder := Path(root, WHEEL_FOLDER, "bin")).is_dir():
            return folder
    if on_path := shutil.which("pgbench"):
        return Path(on_path).parent
    raise SystemExit(
        "there is no pgbench: install PostgreSQL's client programs, or the embedded server"
    )


@contextmanager
def server(dsn: str | None) -> Iterator[str]:
    """The DSN of a server, its version and settings printed."""
    with ExitStack() as stack:
        place = dsn
        if place is None:
            own = stack.enter_context(embedded(cache.home() / "server", settings=OWN_SETTINGS))
            # Some drivers of other queues know neither sockets nor require_auth.
            place = over_tcp(own).partition("?")[0]
        print(described(place))
        yield place


def described(dsn: str) -> str:
    """The server's version and settings, and the machine's cores."""
    with psycopg.connect(dsn) as connection:
        ((version,),) = connection.execute("show server_version").fetchall()
        printed = [
            f"{name}={connection.execute(f'show {name}').fetchall()[0][0]}" for name in SETTINGS
        ]
    return f"PostgreSQL {version}, {', '.join(printed)}; {os.cpu_count()} cores"


def as_in_use(dsn: str) -> None:
    """Vacuum and analyse a database that was just filled, as autovacuum would."""
    with psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute("vacuum analyze")
        sql.execute("checkpoint")


@contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """The DSN of a new, migrated database; gone afterwards."""
    with scratch_database(server_dsn) as dsn:
        migrate(dsn)
        yield dsn
