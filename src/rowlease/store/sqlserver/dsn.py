"""DSNs of SQL Server, as rowlease and JDBC read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, unquote, urlsplit

from rowlease.errors import ConfigError
from rowlease.store import deadlines
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
#: The options that the JDBC driver also has, as JDBC spells them.
JDBC_OPTIONS = {
    "ApplicationIntent": "applicationIntent",
    "Authentication": "authentication",
    "Encrypt": "encrypt",
    "HostnameInCertificate": "hostNameInCertificate",
    "MultiSubnetFailover": "multiSubnetFailover",
    "TrustServerCertificate": "trustServerCertificate",
}


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


def jdbc_options(dsn: str) -> dict[str, str]:
    """The options of Microsoft's JDBC driver. It writes batches of inserts by bulk copy.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    address = read_dsn(dsn)
    host, _, instance = address.host.partition("\\")
    properties = {
        "databaseName": address.database,
        "encrypt": "true",
        # Bulk copy skips checks, but the tables for loads have none.
        "useBulkCopyForBatchInsert": "true",
        # A trigger counts the rows of the lane.
        "bulkCopyForBatchInsertFireTriggers": "true",
        **({"instanceName": instance} if instance else {}),
        **({} if address.user else {"integratedSecurity": "true"}),
    }
    for name, spelt in JDBC_OPTIONS.items():
        if name in address.options:
            value = address.options[name]
            properties[spelt] = {"yes": "true", "no": "false"}.get(value.lower(), value)
    port = "" if address.port is None else f":{address.port}"
    written = ";".join(f"{name}={_jdbc_value(value)}" for name, value in properties.items())
    return {
        "url": f"jdbc:sqlserver://{f'[{host}]' if ':' in host else host}{port};{written}",
        "user": address.user or "",
        "password": address.password or "",
        "driver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "applicationName": "rowlease spark",
        "loginTimeout": str(deadlines.CONNECT),
        "socketTimeout": str(deadlines.BULK // timedelta(milliseconds=1)),
    }


def _jdbc_value(value: str) -> str:
    return value if re.fullmatch(r"[\w.\-]+", value) else f"{{{value.replace('}', '}}')}}}"
