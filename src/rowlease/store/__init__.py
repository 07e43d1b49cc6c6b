"""The only package that knows a database.

`open_store` returns a `Store`. Its methods take and return the values of `rowlease.model`. Their
files have the names of the folders in sql/.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from rowlease.errors import ConfigError, RowleaseError, StoreConflict
from rowlease.model import Finding
from rowlease.store import deadlines
from rowlease.store.bulk import BulkStore
from rowlease.store.calls import Notifications
from rowlease.store.differences import Difference
from rowlease.store.dsn import check_engine, is_sqlserver, mask_passwords, place_of, redact
from rowlease.store.observing import LockObserver, Observer
from rowlease.store.revisions import Migrated
from rowlease.store.store import Store

__all__ = [
    "BulkStore",
    "Difference",
    "LockObserver",
    "Migrated",
    "Notifications",
    "Observer",
    "Store",
    "bulk_store",
    "is_sqlserver",
    "jdbc_error",
    "jdbc_options",
    "mask_passwords",
    "migrate",
    "migration_sql",
    "observe",
    "open_store",
    "place_of",
    "psql_connection",
    "redact",
    "schema_differences",
]

#: The shortest and the longest pause, in seconds, before the next try of a migration that did not
#: get a lock.
MIGRATION_PAUSE = 1.0, 3.0


def open_store(
    dsn: str, *, application_name: str = "rowlease", call_timeout: timedelta = deadlines.CALL
) -> Store:
    """Open the store of a DSN. The store connects on first use.

    Args:
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        application_name: the name that pg_stat_activity or sys.dm_exec_sessions shows.
        call_timeout: how long a call may take before it raises StoreTimeout (more than 0). Some
            routines have a longer limit (`rowlease.store.deadlines`). `Store.within` sets another
            limit for all calls.

    Raises:
        ConfigError: the DSN does not name an engine that rowlease knows.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.store import SqlServerStore

        return SqlServerStore(dsn, application_name, call_timeout)
    from rowlease.store.postgresql.store import PostgresStore

    return PostgresStore(dsn, application_name, call_timeout)


def observe(dsn: str) -> Observer:
    """The observer of a database, for `rowlease engines verify`.

    Raises:
        ConfigError: as `open_store`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.observer import SqlServerObserver

        return SqlServerObserver(dsn)
    from rowlease.store.postgresql.observer import PostgresObserver

    return PostgresObserver(dsn)


def bulk_store(dsn: str, application_name: str) -> BulkStore:
    """A store that also writes and reads many rows at once.

    Raises:
        ConfigError: the DSN cannot be read, or names SQL Server.
    """
    if is_sqlserver(dsn):
        raise ConfigError(
            f"{redact(dsn)} is SQL Server, which has no COPY; write with rowlease.spark.enqueue"
        )
    from rowlease.store.postgresql.bulk import PostgresBulkStore

    return PostgresBulkStore(dsn, application_name)


def migrate(
    dsn: str,
    *,
    allow_blocking_reads: bool = False,
    on_retry: Callable[[StoreConflict], object] = lambda error: None,
) -> Migrated:
    """Bring the database to this version's schema and routines, in one transaction.

    Then create missing indexes again, without locking out writers (PostgreSQL).

    Safe to call again, and from several threads, processes and hosts at once. Workers may run
    meanwhile. If the migration does not get a lock soon, or in a deadlock, everything is rolled
    back and tried again for ten minutes. Between two tries, the migration blocks no other call.

    Args:
        allow_blocking_reads: on SQL Server, accept a database without READ_COMMITTED_SNAPSHOT.
        on_retry: a function that is called with the error before each further try.

    Raises:
        ConfigError: the DSN cannot be read, or the database has a setting that rowlease refuses.
        SchemaMismatch: the database is newer than this version.
        StoreUnavailable: the database cannot be reached.
        AccessDenied: the user may not create the objects.
        StoreError: any other error of the database.
    """
    check_engine(dsn)
    upgrade: Callable[[str], Migrated]
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.driver_errors import is_lock_conflict
        from rowlease.store.sqlserver.migrate import migrate as sqlserver

        upgrade = partial(sqlserver, allow_blocking_reads=allow_blocking_reads)
    else:
        from rowlease.store.postgresql.driver_errors import is_lock_conflict
        from rowlease.store.postgresql.migrate import migrate as upgrade
    ends = time.monotonic() + deadlines.MIGRATION.total_seconds()
    while True:
        try:
            return upgrade(dsn)
        except StoreConflict as error:
            if time.monotonic() > ends or not is_lock_conflict(error.__cause__):
                raise
            on_retry(error)
        time.sleep(random.uniform(*MIGRATION_PAUSE))


def migration_sql(dsn: str) -> str:
    """The script, for psql or sqlcmd, that `migrate` would execute on this database.

    This call changes nothing. The script is one transaction, which takes the lock of `migrate`.
    After it are statements for missing indexes, each a transaction of its own (PostgreSQL).

    Raises: the same as `migrate`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.migrate import migration_sql as sqlserver

        return sqlserver(dsn)
    from rowlease.store.postgresql.migrate import migration_sql as postgresql

    return postgresql(dsn)


def schema_differences(dsn: str) -> list[Difference]:
    """The differences between a database and this release.

    This call compares tables, columns, constraints, indexes, triggers, views, routines and grants,
    and changes nothing. PostgreSQL requires only the right to connect. SQL Server requires VIEW
    DEFINITION and the role rowlease_reader.

    Raises:
        AccessDenied: the user cannot see all definitions (SQL Server).
        SchemaMismatch: the database has another revision.
        ConfigError, StoreError: as `migrate`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.migrate import schema_differences as sqlserver

        return sqlserver(dsn)
    from rowlease.store.postgresql.migrate import schema_differences as postgresql

    return postgresql(dsn)


def psql_connection(dsn: str) -> tuple[str, dict[str, str]]:
    """The DSN for psql: a connection string without the password, and variables.

    Raises:
        ConfigError: the DSN cannot be read, or names SQL Server.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        raise ConfigError(f"{redact(dsn)} is SQL Server; use sqlcmd")
    from rowlease.store.postgresql.dsn import for_psql

    return for_psql(dsn)


def diagnose_dsn(dsn: str) -> list[Finding]:
    """What is wrong with a DSN that can be used: nobody verifies the server.

    Raises:
        ConfigError: as `open_store`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):  # its certificate is verified, unless the DSN says otherwise
        return []
    from rowlease.store.postgresql.dsn import VERIFY, unverified_host

    host = unverified_host(dsn)
    if host is None:
        return []
    message = f"nobody verifies that {host} is the database, because the DSN has no sslmode"
    return [Finding("tls", host, message, VERIFY)]


def jdbc_options(dsn: str) -> dict[str, str]:
    """The options of Spark's JDBC writer and reader for this database, such as url and user.

    Raises:
        ConfigError: as `open_store`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.dsn import jdbc_options as sqlserver

        return sqlserver(dsn)
    from rowlease.store.postgresql.dsn import jdbc_options as postgresql

    return postgresql(dsn)


def jdbc_error(dsn: str, state: str, number: int, text: str) -> RowleaseError:
    """The exception for an error that the database's JDBC driver raised.

    Args:
        state: the SQLSTATE of the java.sql.SQLException.
        number: the error code of the exception.
        text: the first line of the exception's message.
    """
    where = redact(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.driver_errors import jdbc_error as sqlserver

        return sqlserver(state, number, text, where)
    from rowlease.store.postgresql.driver_errors import jdbc_error as postgresql

    return postgresql(state, text, where)
