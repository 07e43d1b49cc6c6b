"""Opens connections to SQL Server, and finds the ODBC driver for them."""

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

#: The seconds of silence before the first TCP keep-alive probe and between probes. A dead network
#: must be noticed within a lease, and not after TCP's default of two hours.
KEEP_ALIVE = {"KeepAlive": "10", "KeepAliveInterval": "5"}
#: The names of the system's drivers that can be used, the preferred driver first.
INSTALLED = ("ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server")
#: For each family of Linux distributions: its folder in the package mssql-python-odbc, and a file
#: that identifies the family.
FAMILIES = {
    "alpine": "/etc/alpine-release",
    "rhel": "/etc/redhat-release",
    "suse": "/etc/SUSE-brand",
    "debian_ubuntu": "/etc/debian_version",
}
#: Sets of names for the same processor.
MACHINES: tuple[set[str], ...] = ({"x86_64", "amd64", "x64"}, {"arm64", "aarch64"})


def odbc_string(dsn: str, application_name: str) -> str:
    """The connection string with the password. TLS is verified unless the DSN disables this.

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
        # A driver that reconnects hides the loss of a transaction. The store repeats those calls
        # that can safely be repeated.
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
    """The module pyodbc without its pooling, because the store has a pool.

    Raises:
        ConfigError: pyodbc is not installed, or finds no ODBC driver manager.
    """
    try:
        import pyodbc as module
    except ModuleNotFoundError as error:
        raise ConfigError(
            "SQL Server needs pyodbc and Microsoft's ODBC driver; install rowlease[sqlserver]"
        ) from error
    except ImportError as error:  # a system library is missing, which no Python package contains
        raise ConfigError(
            f"pyodbc is installed but cannot be loaded ({error}); install the system's ODBC driver "
            "manager, which is the package unixodbc on Debian and Ubuntu, unixODBC elsewhere"
        ) from error
    # The driver manager's pool would reuse connections with the last user's settings.
    module.pooling = False
    found: ModuleType = module
    return found


#: Settings that affect the meaning of strings and procedures. They override the settings of the
#: login, of logon triggers and of the server's `user options`. The procedures set READ COMMITTED
#: again. Without the settings from `ansi_nulls` to `numeric_roundabort`, SQL Server refuses writes
#: to a table with a filtered index.
SESSION = (
    "set transaction isolation level read committed; set language us_english; set datefirst 7; "
    "set ansi_nulls on; set ansi_padding on; set ansi_warnings on; set arithabort on; "
    "set concat_null_yields_null on; set quoted_identifier on; set numeric_roundabort off; "
    "set implicit_transactions off; set rowcount 0; set textsize 2147483647"
)
#: Refuses a schema `rowlease` of somebody else. The batch calls nothing in the schema.
CHECK_OWNER = (
    "; declare @owner nvarchar(128) = (select user_name(s.principal_id) from sys.schemas as s"
    " where s.name = N'rowlease' and user_name(s.principal_id) not in"
    " (N'rowlease_owner', user_name())); if @owner is not null throw 51020, @owner, 1"
)


def connect(odbc: str) -> Any:
    """Open a connection in autocommit mode, with the settings of SESSION.

    Without autocommit, pyodbc would leave a claim uncommitted and roll it back on close.

    Raises:
        pyodbc.Error: the connection fails, or the schema belongs to somebody else.
    """
    connection = pyodbc().connect(odbc, autocommit=True, timeout=deadlines.CONNECT)
    connection.timeout = deadlines.CONNECT
    connection.execute(SESSION + CHECK_OWNER)
    return connection


@cache
def driver() -> str:
    """Microsoft's ODBC driver: version 18 from PyPI, else an installed version 18 or 17.

    Raises:
        ConfigError: no driver was found.
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
    """The drivers for this machine in the PyPI package `mssql-python-odbc`, preferred first."""
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
