"""SQL Server's DSN: its parts, refused options, and the driver."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlease.errors import ConfigError
from rowlease.store import engine_of, migrate, open_store, redact
from rowlease.store.sqlserver import connection as odbc
from rowlease.store.sqlserver.connection import driver, odbc_string, pyodbc
from rowlease.store.sqlserver.dsn import read_dsn

SECRET = "hunter2"


def values(dsn: str) -> dict[str, str]:
    """The connection string, taken apart as ODBC does."""
    pairs = re.findall(r"(\w+)=\{((?:[^}]|\}\})*)\}(?:;|$)", odbc_string(dsn, "test"))
    return {name: value.replace("}}", "}") for name, value in pairs}


def test_a_dsn_says_server_database_user_and_password() -> None:
    for scheme in ("mssql", "mssql+pyodbc"):
        found = values(f"{scheme}://u:hunter2@h:1433/db")
        assert (found["Server"], found["Database"]) == ("tcp:h,1433", "db")
        assert (found["UID"], found["PWD"], found["APP"]) == ("u", SECRET, "test")


def test_tls_is_verified_unless_the_dsn_says_otherwise() -> None:
    assert values("mssql://u:p@h/db")["Encrypt"] == "yes"
    assert "TrustServerCertificate" not in values("mssql://u:p@h/db")
    other = values("mssql://u:p@h/db?encrypt=strict&trustservercertificate=yes")
    assert (other["Encrypt"], other["TrustServerCertificate"]) == ("strict", "yes")


def test_who_gives_no_user_comes_as_the_process_he_is() -> None:
    found = values("mssql://h/db")
    assert found["Trusted_Connection"] == "yes"
    assert "UID" not in found
    entra = values("mssql://h/db?Authentication=ActiveDirectoryMsi")
    assert "Trusted_Connection" not in entra


def test_a_named_instance_and_an_address_in_brackets_are_hosts() -> None:
    assert values("mssql://h%5Cprod/db")["Server"] == "tcp:h\\prod"
    assert values("mssql://[::1]:1433/db")["Server"] == "tcp:::1,1433"


@given(st.text(min_size=1).filter(lambda text: "\0" not in text and text.isprintable()))
def test_any_password_comes_through(password: str) -> None:
    dsn = f"mssql://u:{quote(password, safe='')}@h/db"
    assert values(dsn)["PWD"] == password
    assert read_dsn(dsn).password == password


def test_nothing_in_a_value_can_become_another_option() -> None:
    found = values(f"mssql://u:{quote('x};Encrypt={no', safe='')}@h/db")
    assert (found["PWD"], found["Encrypt"]) == ("x};Encrypt={no", "yes")


@pytest.mark.parametrize(
    "dsn",
    [
        "mssql:///db",
        "mssql://u:hunter2@h",
        "mssql://u:hunter2@h/",
        "mssql://u:hunter2@h:port/db",
        "mssql://u:hunter2@[::1/db",
        "mssql://u:hunter2%zz@h/db",
        "mssql://u:hunter2%00@h/db",
        "mssql://u:hunter2%ff@h/db",
        "mssql://u:a@hunter2@h/db",
        "mssql://u:a/hunter2@h/db",
        "mssql://u:a?hunter2@h/db",
        "mssql://u:hunter2",
        "mssql://u:hunter2/db",
        "mssql://u:hunter2@h/db?TrustServerCertificat=yes",
        "mssql://u:hunter2@h/db?Encrypt",
        "mssql+pymssql://u:hunter2@h/db",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_before_anything_is_dialled(dsn: str) -> None:
    for refuse in (open_store, migrate):
        with pytest.raises(ConfigError, match=r"mssql://user:password@host") as raised:
            refuse(dsn)
        assert SECRET not in str(raised.value)
        assert SECRET not in repr(raised.value.__cause__)


def test_everything_but_the_password_is_shown() -> None:
    assert redact("mssql+pyodbc://u:hunter2@h:1433/db") == "mssql+pyodbc://u:***@h:1433/db"
    assert SECRET not in repr(read_dsn("mssql://u:hunter2@h/db"))


def test_the_jdbc_driver_gets_the_same_place_and_bulk_copy() -> None:
    options = engine_of("mssql://u:hunter2@h:1433/my;db?TrustServerCertificate=yes").jdbc_options()
    assert options["url"] == (
        "jdbc:sqlserver://h:1433;databaseName={my;db};encrypt=true;"
        "useBulkCopyForBatchInsert=true;bulkCopyForBatchInsertFireTriggers=true;"
        "trustServerCertificate=true"
    )
    assert (options["user"], options["password"]) == ("u", SECRET)
    assert SECRET not in options["url"]


# -- the driver ----------------------------------------------------------------------------------


def test_a_driver_named_in_the_dsn_is_taken() -> None:
    assert values("mssql://u:p@h/db?Driver=My+Driver")["Driver"] == "My Driver"


Installed = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Sets the installed drivers of the system, without the one from PyPI."""
    monkeypatch.setattr(odbc, "find_spec", lambda name: None)
    driver.cache_clear()

    def have(*names: str) -> None:
        monkeypatch.setattr(odbc, "pyodbc", lambda: SimpleNamespace(drivers=lambda: list(names)))

    yield have
    driver.cache_clear()


def test_an_installed_driver_is_found(installed: Installed) -> None:
    installed("FreeTDS", "ODBC Driver 17 for SQL Server", "ODBC Driver 18 for SQL Server")
    assert driver() == "ODBC Driver 18 for SQL Server"


def test_the_error_for_a_missing_driver_says_what_to_install(installed: Installed) -> None:
    installed("FreeTDS")
    with pytest.raises(ConfigError, match=r"install rowlease\[sqlserver\]"):
        open_store("mssql://u:p@h/db")


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that `import pyodbc` finds; there is none yet."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pyodbc", raising=False)
    pyodbc.cache_clear()
    yield tmp_path / "pyodbc.py"
    pyodbc.cache_clear()


def test_where_there_is_no_pyodbc_the_extra_is_named(importing: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs pyodbc .*; install rowlease\[sqlserver\]$"):
        pyodbc()


def test_where_only_a_library_is_missing_it_is_named_and_not_the_extra(importing: Path) -> None:
    importing.write_text('raise ImportError("libodbc.so.2: cannot open shared object file")')
    with pytest.raises(ConfigError, match=r"libodbc\.so\.2.*the package unixodbc") as raised:
        pyodbc()
    assert "rowlease[sqlserver]" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        migrate,
        lambda dsn: engine_of(dsn).migration_sql(),
        lambda dsn: engine_of(dsn).schema_differences(),
    ],
)
def test_a_migration_names_the_library_that_is_missing(
    call: Callable[[str], object], importing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importing.write_text('raise ImportError("libodbc.so.2: cannot open shared object file")')
    with pytest.raises(ConfigError, match=r"libodbc\.so\.2.*the package unixodbc"):
        call("mssql://u:p@127.0.0.1:1/db?Driver=any")


def test_rows_go_to_sql_server_by_bulk_copy_that_fires_the_trigger() -> None:
    from rowlease.spark.jdbc import writing_options

    url = writing_options("mssql://u:hunter2@h:1433/db")["url"]
    assert "useBulkCopyForBatchInsert=true" in url
    assert "bulkCopyForBatchInsertFireTriggers=true" in url
