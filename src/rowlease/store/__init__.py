"""The only place that knows a database.

`open_store` gives a `Store`; everything above it talks in the values of `rowlease.model`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError
from rowlease.store.calls import Doorbell, Store

__all__ = ["Doorbell", "Store", "connect", "database", "jdbc_options", "open_store", "redact"]


#: Hosts with ports, and a database: what cannot be a user with a password.
HOST = r"(\[[^]/]*\]|[^]:/[,]*)(:\d*)?"
ADDRESS = rf"{HOST}(,{HOST})*(/.*)?"


@contextmanager
def database(dsn: str | None = None) -> Iterator[str]:
    """The DSN to work with: the given or configured one, else the embedded server's while inside.

    The embedded server is rowlease's own, so its schema is brought up to date here; a real server
    is migrated by `rowlease migrate`, when its owner wants it.

    Raises:
        ConfigError, StoreUnavailable, SchemaMismatch: as `rowlease.store.embedded.embedded`.
    """
    configured = configured_dsn(dsn)
    if configured is not None:
        yield configured
        return
    from rowlease.store.embedded import embedded
    from rowlease.store.migrate import migrate

    with embedded() as own:
        migrate(own)
        yield own


@contextmanager
def connect(dsn: str | None = None, *, application_name: str = "rowlease") -> Iterator[Store]:
    """A store on `database(dsn)`, its schema checked; closed at the end of the block.

    Raises:
        as `database` and `Store.check_schema`.
    """
    with database(dsn) as found, closing(open_store(found, application_name=application_name)) as s:
        s.check_schema()
        yield s


def open_store(dsn: str, *, application_name: str = "rowlease") -> Store:
    """Open the store a DSN points to; connects on first use.

    Args:
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        application_name: what a DBA sees in pg_stat_activity or sys.dm_exec_sessions.

    Raises:
        ConfigError: the DSN names no engine that rowlease knows.
    """
    if dsn.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        from rowlease.store.postgresql import PostgresStore

        return PostgresStore(dsn, application_name)
    if is_sqlserver(dsn):
        from rowlease.store.sqlserver import SqlServerStore

        return SqlServerStore(dsn, application_name)
    raise ConfigError(
        f"the DSN {redact(dsn)!r} names no database that rowlease knows; "
        "write it as postgresql://user:password@host:port/database or "
        "mssql://user:password@host:port/database"
    )


def is_sqlserver(dsn: str) -> bool:
    """Does the DSN name SQL Server?"""
    return dsn.startswith(("mssql://", "mssql+pyodbc://"))


def jdbc_options(dsn: str) -> dict[str, str]:
    """What Spark's JDBC writer and reader need to reach the same database: url, user, password...

    Raises:
        ConfigError: as `open_store`.
    """
    if is_sqlserver(dsn):
        from rowlease.store.odbc import jdbc_options as sqlserver

        return sqlserver(dsn)
    from rowlease.store.libpq import jdbc_options as postgresql

    return postgresql(dsn)


def redact(dsn: str) -> str:
    """The DSN without its password, fit for people and logs; what is doubtful is left out."""
    scheme, _, rest = dsn.partition("://")
    if not re.fullmatch(r"[a-z][a-z+]*", scheme) or not rest:
        return "***"
    address, _, query = rest.partition("?")
    credentials, at, place = address.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if "@" in query or "/" in user or not (at or re.fullmatch(ADDRESS, place)):
        return f"{scheme}://***"
    return f"{scheme}://{user}{colon and ':***'}{at}{place}"
