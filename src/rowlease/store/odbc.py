"""How SQL Server is reached: what a DSN says, the ODBC driver that is found, JDBC's options."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rowlease.errors import ConfigError
from rowlease.store import redact

HOW_TO_WRITE_IT = (
    "write it as mssql://user:password@host:port/database, and @ / : % in a password as "
    "%40 %2F %3A %25"
)
#: What may follow the question mark, as ODBC spells it. Everything else is refused: a misspelt
#: TrustServerCertificate must not be taken for nothing.
OPTIONS = {
    name.lower(): name
    for name in (
        "ApplicationIntent", "Authentication", "Driver", "Encrypt", "HostnameInCertificate",
        "MultiSubnetFailover", "ServerCertificate", "ServerSPN", "Trusted_Connection",
        "TrustServerCertificate",
    )
}  # fmt: skip
#: Those that the JDBC driver knows too, in its spelling.
JDBC_OPTIONS = {
    "ApplicationIntent": "applicationIntent",
    "Authentication": "authentication",
    "Encrypt": "encrypt",
    "HostnameInCertificate": "hostNameInCertificate",
    "MultiSubnetFailover": "multiSubnetFailover",
    "TrustServerCertificate": "trustServerCertificate",
}
#: Seconds until a silent connection is asked whether it lives, and between the questions: a dead
#: network must be noticed within a lease, not after TCP's two hours.
KEEP_ALIVE = {"KeepAlive": "10", "KeepAliveInterval": "5"}
#: Installed drivers that will do, best first.
INSTALLED = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")
#: The PyPI package's folders, by what tells a distribution's family.
FAMILIES = {
    "alpine": "/etc/alpine-release",
    "rhel": "/etc/redhat-release",
    "suse": "/etc/SUSE-brand",
    "debian_ubuntu": "/etc/debian_version",
}
#: Names of one and the same processor.
MACHINES: tuple[set[str], ...] = ({"x86_64", "amd64", "x64"}, {"arm64", "aarch64"})


@dataclass(frozen=True, slots=True)
class Address:
    """What a DSN says.

    Attributes:
        host: a name, an address, or `name\\instance`.
        options: ODBC's names and the DSN's values.
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
        ConfigError: it cannot be read.
    """
    # A password's own @ or / would end up in the host or in the database's name.
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
        if name.lower() not in OPTIONS:
            raise ConfigError(
                f"the DSN {redact(dsn)!r} has an option that rowlease does not know; it takes "
                f"{', '.join(OPTIONS.values())}; {HOW_TO_WRITE_IT}"
            )
        options[OPTIONS[name.lower()]] = value
    return Address(host, port, database, user or None, password, options)


def _parts(
    dsn: str,
) -> (
    tuple[str | None, int | None, str | None, str | None, str | None, list[tuple[str, str]]] | None
):
    """Host, port, database, user, password and options; None, and no error, which would quote."""
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
        raise ValueError("a % that stands for no character")
    return unquote(text, errors="strict")


def odbc_string(dsn: str, application_name: str) -> str:
    """The connection string; it holds the password. TLS is verified unless the DSN says otherwise.

    Raises:
        ConfigError: the DSN cannot be read, or there is no driver.
    """
    address = read_dsn(dsn)
    server = f"tcp:{address.host}"
    if address.port is not None:
        server += f",{address.port}"
    values = {
        "Driver": address.options.get("Driver") or driver(),
        "Server": server,
        "Database": address.database,
        "APP": application_name,
        "Encrypt": "yes",
        **KEEP_ALIVE,
        # The driver's own reconnecting would hide that a transaction is gone; the store repeats
        # what is safe to repeat.
        "ConnectRetryCount": "0",
    }
    if address.user is not None:
        values |= {"UID": address.user, "PWD": address.password or ""}
    elif "Authentication" not in address.options:
        values["Trusted_Connection"] = "yes"
    values |= address.options
    return ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in values.items())


def jdbc_options(dsn: str) -> dict[str, str]:
    """url, user and password for Microsoft's JDBC driver, with bulk copy for batches of inserts.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    address = read_dsn(dsn)
    host, _, instance = address.host.partition("\\")
    properties = {
        "databaseName": address.database,
        "encrypt": "true",
        # Bulk copy skips triggers and checks: it is for the staging table, which has none.
        "useBulkCopyForBatchInsert": "true",
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
        "loginTimeout": "10",
    }


def _jdbc_value(value: str) -> str:
    return value if re.fullmatch(r"[\w.\-]+", value) else f"{{{value.replace('}', '}}')}}}"


@cache
def pyodbc() -> ModuleType:
    """The module, with its own pooling off: the store keeps the connections.

    Raises:
        ConfigError: it is not installed, or finds no ODBC driver manager.
    """
    try:
        import pyodbc as module
    except ImportError as error:
        raise ConfigError(
            f"SQL Server needs pyodbc and Microsoft's ODBC driver ({error}); install "
            "rowlease[sqlserver], and on Linux the system's package unixodbc"
        ) from error
    # The driver manager's pool would hand out connections with the last user's settings.
    module.pooling = False
    found: ModuleType = module
    return found


@cache
def driver() -> str:
    """Microsoft's ODBC driver 18: the one from PyPI, else an installed one (17 will do).

    Raises:
        ConfigError: there is none.
    """
    for path in _bundled():
        return str(path)
    installed = pyodbc().drivers()
    for name in INSTALLED:
        if name in installed:
            return name
    raise ConfigError(
        "there is no ODBC driver for SQL Server; install rowlease[sqlserver], or Microsoft's "
        "package msodbcsql18, or name one with ?Driver= in the DSN"
    )


def _bundled() -> Iterator[Path]:
    """Drivers for this machine in the PyPI package `mssql-python-odbc`, best first."""
    spec: Any = find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        return
    libs = Path(spec.origin).parent / "libs"
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, "")
    machines = next((m for m in MACHINES if platform.machine().lower() in m), set())
    family = next((name for name, sign in FAMILIES.items() if Path(sign).exists()), "")
    found = [
        path
        for pattern in ("libmsodbcsql*.so*", "libmsodbcsql*.dylib", "msodbcsql*.dll")
        for path in (libs / system).rglob(pattern)
        if machines & set(path.parts)
    ]
    yield from sorted(found, key=lambda path: (family not in path.parts, str(path)))
