"""The only place that knows a database.

`open_store` gives a `Store`; everything above it talks in the values of `rowlease.model`, and asks
for the role of the store that it needs: Producing, Consuming, Scheduling, Operating or Reading.
"""

from __future__ import annotations

from datetime import timedelta

from rowlease.errors import ConfigError, RowleaseError
from rowlease.store import deadlines
from rowlease.store.bulk import BulkStore, IdRange, Window
from rowlease.store.calls import Notifications
from rowlease.store.consuming import Consuming
from rowlease.store.dsn import check_engine, is_sqlserver, redact
from rowlease.store.operating import Operating
from rowlease.store.producing import Producing
from rowlease.store.reading import Reading
from rowlease.store.revisions import Difference, Migrated
from rowlease.store.scheduling import Scheduling
from rowlease.store.store import Store

__all__ = [
    "BulkStore",
    "Consuming",
    "Difference",
    "IdRange",
    "Migrated",
    "Notifications",
    "Operating",
    "Producing",
    "Reading",
    "Scheduling",
    "Store",
    "Window",
    "bulk_store",
    "is_sqlserver",
    "jdbc_error",
    "jdbc_options",
    "migrate",
    "migration_sql",
    "open_store",
    "redact",
    "schema_differences",
]


def open_store(
    dsn: str, *, application_name: str = "rowlease", call_timeout: timedelta = deadlines.CALL
) -> Store:
    """Open the store a DSN points to; connects on first use.

    Args:
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        application_name: what a DBA sees in pg_stat_activity or sys.dm_exec_sessions.
        call_timeout: how long a call may take before it raises StoreTimeout (more than 0); long
            routines have more (`rowlease.store.deadlines`), and `Store.within` gives another.

    Raises:
        ConfigError: the DSN names no engine that rowlease knows.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.store import SqlServerStore

        return SqlServerStore(dsn, application_name, call_timeout)
    from rowlease.store.postgresql.store import PostgresStore

    return PostgresStore(dsn, application_name, call_timeout)


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


def migrate(dsn: str) -> Migrated:
    """Bring the database to this version's schema and routines, in one transaction.

    Safe to call again and from several threads, processes and hosts at once; workers may go on
    meanwhile.

    Raises:
        ConfigError: the DSN cannot be read.
        SchemaMismatch: the database is newer than this version.
        StoreUnavailable: it cannot be reached.
        AccessDenied: the user may not create what is needed.
        StoreError: anything else that the database refuses.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.migrate import migrate as sqlserver

        return sqlserver(dsn)
    from rowlease.store.postgresql.migrate import migrate as postgresql

    return postgresql(dsn)


def migration_sql(dsn: str) -> str:
    """What `migrate` would execute on this database, as a script for psql or sqlcmd.

    Changes nothing. The script is one transaction, and takes turns with `migrate`.

    Raises:
        As `migrate`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.migrate import migration_sql as sqlserver

        return sqlserver(dsn)
    from rowlease.store.postgresql.migrate import migration_sql as postgresql

    return postgresql(dsn)


def schema_differences(dsn: str) -> list[Difference]:
    """What a database holds otherwise than this release makes it; empty if nothing.

    Compares tables, columns, constraints, indexes, triggers, views, routines and grants. Changes
    nothing, and needs no right but to connect.

    Raises:
        ConfigError: the DSN cannot be read, or is SQL Server's, which cannot be compared yet.
        SchemaMismatch: the database is of another revision.
        StoreError: as `migrate`.
    """
    check_engine(dsn)
    if is_sqlserver(dsn):
        raise ConfigError("schemas are compared on PostgreSQL only")
    from rowlease.store.postgresql.migrate import schema_differences as postgresql

    return postgresql(dsn)


def jdbc_options(dsn: str) -> dict[str, str]:
    """What Spark's JDBC writer and reader need to reach the same database: url, user, password...

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
    """What rowlease calls an error of the database's JDBC driver.

    Args:
        state, number, text: of java.sql.SQLException; of the text the first line.
    """
    where = redact(dsn)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver.errors import jdbc_error as sqlserver

        return sqlserver(state, number, text, where)
    from rowlease.store.postgresql.errors import jdbc_error as postgresql

    return postgresql(state, text, where)
