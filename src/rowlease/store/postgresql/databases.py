"""Makes a database on a server; what goes into it is the work of `migrate`."""

from __future__ import annotations

import psycopg
from psycopg import sql

from rowlease.store.dsn import redact
from rowlease.store.postgresql.connection import connect
from rowlease.store.postgresql.errors import our_error


def make_database(server_dsn: str, name: str, seconds: float) -> None:
    """Create a database unless it exists; safe to call from several processes at once.

    Args:
        server_dsn: of any database on the server, by a user who may make others.
        seconds: to wait for each answer.

    Raises:
        StoreUnavailable: the server does not answer.
        StoreError: anything else that it refuses.
    """
    exists = "select 1 from pg_database where datname = %s"
    try:
        with connect(server_dsn, "rowlease", autocommit=True) as connection:
            connection.patience = seconds
            if not connection.execute(exists, [name]).fetchone():
                connection.execute("select pg_advisory_lock(1)")  # until this connection ends
                if not connection.execute(exists, [name]).fetchone():
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    except psycopg.Error as error:
        raise our_error(error, redact(server_dsn)) from error
