"""The engine that a DSN names, and the DSN without its password."""

from __future__ import annotations

import re

from rowlease.errors import ConfigError

#: Hosts with ports, and a database: certainly not a user with a password.
HOST = r"(\[[^]/]*\]|[^]:/[,]*)(:\d*)?"
ADDRESS = rf"{HOST}(,{HOST})*(/.*)?"
POSTGRESQL = ("postgresql://", "postgres://", "postgresql+psycopg://")


def is_sqlserver(dsn: str) -> bool:
    """Does the DSN name SQL Server?"""
    return dsn.startswith(("mssql://", "mssql+pyodbc://"))


def check_engine(dsn: str) -> None:
    """Refuse a DSN of an engine that rowlease does not know.

    Raises:
        ConfigError: it names neither PostgreSQL nor SQL Server.
    """
    if is_sqlserver(dsn) or dsn.startswith(POSTGRESQL):
        return
    raise ConfigError(
        f"the DSN {redact(dsn)!r} names no engine that rowlease knows; "
        "write it as postgresql://user:password@host:port/database or "
        "mssql://user:password@host:port/database"
    )


def redact(dsn: str) -> str:
    """The DSN without its password, for messages and logs; doubtful parts are masked."""
    scheme, _, rest = dsn.partition("://")
    if not re.fullmatch(r"[a-z][a-z+]*", scheme) or not rest:
        return "***"
    address, _, query = rest.partition("?")
    credentials, at, place = address.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if "@" in query or "/" in user or not (at or re.fullmatch(ADDRESS, place)):
        return f"{scheme}://***"
    return f"{scheme}://{user}{colon and ':***'}{at}{place}"
