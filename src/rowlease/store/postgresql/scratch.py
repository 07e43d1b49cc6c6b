"""Creates databases for tests, and stops their clocks, for `rowlease.testing`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from rowlease.errors import ConfigError
from rowlease.store import deadlines
from rowlease.store.postgresql.connection import connect
from rowlease.store.postgresql.dsn import libpq_dsn
from rowlease.store.postgresql.store import PostgresStore
from rowlease.store.routines import load_routines, packaged_folder
from rowlease.store.store import Store

#: The clock of a database can be stopped only if the database's name contains this.
TEST = "test"


@contextmanager
def scratch_database(server_dsn: str, template: str | None = None) -> Iterator[str]:
    """The DSN of a new database. It is dropped after the block, even if clients are connected.

    Args:
        server_dsn: the DSN of any database on the server, with a user that may create databases.
        template: the DSN of a database on the same server to copy (about 15 ms).
    """
    name = f"rowlease_{TEST}_{secrets.token_hex(6)}"
    copied = f' template "{sa.make_url(template).database}" strategy file_copy' if template else ""
    with connect(libpq_dsn(server_dsn), "rowlease testing", autocommit=True) as connection:
        connection.patience = deadlines.BULK.total_seconds()
        connection.execute(f"create database {name}{copied}")
        try:
            yield sa.make_url(server_dsn).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f"drop database {name} with (force)")


def set_clock(store: Store, time: datetime | None) -> None:
    """Stop the clock of a test database for all its clients, or start it again (None).

    Raises:
        ConfigError: the engine is not PostgreSQL, or the database's name does not contain "test".
        AccessDenied: the store's user does not own the schema.
    """
    if not isinstance(store, PostgresStore):
        raise ConfigError("the clock can be stopped only on PostgreSQL")
    with store.connection() as connection:
        name = connection.info.dbname
        if TEST not in name.lower():
            raise ConfigError(
                f'the clock of the database "{name}" would stop for all clients; '
                f'use the fixture rowlease_dsn, or a database with "{TEST}" in its name'
            )
        if time is None:
            text = load_routines("postgresql")["now"].body
        else:
            file = packaged_folder("sql") / "postgresql" / "testing" / "now.sql"
            text = file.read_text(encoding="utf-8").replace(
                "{time}", time.astimezone(UTC).isoformat()
            )
        connection.execute(text.encode())
