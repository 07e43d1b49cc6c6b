"""DSNs of SQL Server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from rowlease.errors import ConfigError
from rowlease.store.dsn import redact

HOW_TO_WRITE_IT = (
    "write it as mssql://user:password@host:port/database, and @ / : % in a password as "
    "%40 %2F %3A %25"
)
#: The options that a DSN may have, as ODBC spells them. All others are refused, because a misspelt
#: TrustServerCertificate must not be ignored.
DRIVER_OPTIONS = {
    name.lower(): name
    for name in (
        "ApplicationIntent", "Authentication", "Driver", "Encrypt", "HostnameInCertificate",
        "MultiSubnetFailover", "ServerCertificate", "ServerSPN", "Trusted_Connection",
        "TrustServerCertificate",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a DSN.

    Attributes:
        host: a name, an address, or `name\\instance`.
        options: the options, by the names that ODBC uses.
    """

    host: str
    port: int | None
    database: str
    user: str | None
    password: str | None = field(repr=False)
    options: dict[str, str]


def read_dsn(dsn: str) -> Address:
    """Read `mssql://user:password@host:port/database?Encrypt=...`.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    # An unescaped @ or / in a password would end up in the name of the host or database.
    if not re.fullmatch(r"mssql(\+pyodbc)?://([^@/?]*@)?[^@/?]+/[^@/?]+(\?[^@]*)?", dsn):
        raise _unreadable(dsn)
    parts = _parts(dsn)
    if parts is None:
        raise _unreadable(dsn)
    host, port, database, user, password, pairs = parts
    if not host or not database or "\0" in f"{host}{database}{user}{password}{pairs}":
        raise _unreadable(dsn)
    options = {}
    for name, value in pairs:
        if name.lower() not in DRIVER_OPTIONS:
            raise ConfigError(
                f"the DSN {redact(dsn)!r} has an option that rowlease does not know; use only "
                f"{', '.join(DRIVER_OPTIONS.values())}; {HOW_TO_WRITE_IT}"
            )
        options[DRIVER_OPTIONS[name.lower()]] = value
    return Address(host, port, database, user or None, password, options)


def _parts(
    dsn: str,
) -> (
    tuple[str | None, int | None, str | None, str | None, str | None, list[tuple[str, str]]] | None
):
    """Host, port, database, user, password, options; None if they cannot be read."""
    try:
        parts = urlsplit(dsn)
        host, database, user, password = map(
            _decoded, (parts.hostname, parts.path[1:], parts.username, parts.password)
        )
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        return host, parts.port, database, user, password, pairs
    except ValueError:  # also UnicodeDecodeError
        return None


def _unreadable(dsn: str) -> ConfigError:
    return ConfigError(f"the DSN {redact(dsn)!r} cannot be read; {HOW_TO_WRITE_IT}")


def _decoded(text: str | None) -> str | None:
    if text is None:
        return None
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError("a % without two hexadecimal digits")
    return unquote(text, errors="strict")
