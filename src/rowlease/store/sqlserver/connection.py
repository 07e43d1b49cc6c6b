"""Connections to SQL Server, and the ODBC driver that they need."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from rowlease.errors import ConfigError
from rowlease.store import deadlines
from rowlease.store.sqlserver.dsn import read_dsn

#: Seconds of silence before the first TCP keep-alive probe, and between probes, so that a dead
#: network is noticed within a lease, not after TCP's two hours.
KEEP_ALIVE = {"KeepAlive": "10", "KeepAliveInterval": "5"}
#: Installed drivers that can be used, best first.
INSTALLED = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")
#: The PyPI package's folders, by the file that identifies a distribution's family.
FAMILIES = {
    "alpine": "/etc/alpine-release",
    "rhel": "/etc/redhat-release",
    "suse": "/etc/SUSE-brand",
    "debian_ubuntu": "/etc/debian_version",
}
#: Names of the same processor.
MACHINES: tuple[set[str], ...] = ({"x86_64", "amd64", "x64"}, {"arm64", "aarch64"})


def odbc_string(dsn: str, application_name: str) -> str:
    """The connection string, with the password. TLS is verified unless the DSN disables that.

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
        # If the driver reconnected, it would hide that a transaction is lost; the store repeats
        # calls that are safe to repeat.
        "ConnectRetryCount": "0",
    }
    if address.user is not None:
        values |= {"UID": address.user, "PWD": address.password or ""}
    elif "Authentication" not in address.options:
        values["Trusted_Connection"] = "yes"
    values |= address.options
    return ";".join(f"{name}={{{value.replace('}', '}}')}}}" for name, value in values.items())


@cache
def pyodbc() -> ModuleType:
    """The module, with its pooling off, because the store has a pool.

    Raises:
        ConfigError: it is not installed, or finds no ODBC driver manager.
    """
    try:
        import pyodbc as module
    except ModuleNotFoundError as error:
        raise ConfigError(
            "SQL Server needs pyodbc and Microsoft's ODBC driver; install rowlease[sqlserver]"
        ) from error
    except ImportError as error:  # a library of the system is missing, which no Python package has
        raise ConfigError(
            f"pyodbc is installed but cannot be loaded ({error}); install the system's ODBC driver "
            "manager, which is the package unixodbc on Debian and Ubuntu, unixODBC elsewhere"
        ) from error
    # The driver manager's pool would reuse connections with the last user's settings.
    module.pooling = False
    found: ModuleType = module
    return found


#: Settings that change the meaning of a text or of a procedure; they override those of the login,
#: of the server's `user options` and of triggers. The procedures set READ COMMITTED again. Without
#: those from `ansi_nulls` to `numeric_roundabort` SQL Server refuses writes to a table with a
#: filtered index.
SESSION = (
    "set transaction isolation level read committed; set language us_english; set datefirst 7; "
    "set ansi_nulls on; set ansi_padding on; set ansi_warnings on; set arithabort on; "
    "set concat_null_yields_null on; set quoted_identifier on; set numeric_roundabort off; "
    "set implicit_transactions off; set rowcount 0; set textsize 2147483647"
)


def connect(odbc: str) -> Any:
    """A connection in autocommit, with the settings of SESSION.

    With pyodbc's default, no claim would be committed as long as the connection lives.

    Raises:
        pyodbc.Error: the connection fails.
    """
    connection = pyodbc().connect(odbc, autocommit=True, timeout=deadlines.CONNECT)
    connection.timeout = deadlines.CONNECT
    connection.execute(SESSION)
    return connection


@cache
def driver() -> str:
    """Microsoft's ODBC driver 18: from PyPI, else an installed one (also 17).

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
