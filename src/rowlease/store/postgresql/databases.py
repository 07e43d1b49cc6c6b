"""Creates a database on a server. `migrate` then creates its schema."""

from __future__ import annotations

import psycopg
from psycopg import sql

from rowlease.store.dsn import redact
from rowlease.store.postgresql.connection import connect
from rowlease.store.postgresql.driver_errors import our_error


def make_database(server_dsn: str, name: str, seconds: float) -> None:
    """Create a database unless it exists. Safe to call from several processes at once.

    Args:
        server_dsn: the DSN of any database on the server, with a user that may create databases.
        name: the name of the new database.
        seconds: the longest wait for an answer.

    Raises:
        StoreUnavailable: the server cannot be reached.
        StoreError: any other error of the server.
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
