"""`rowlease url` and `rowlease psql`, on a server of the user's own."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import pytest

from rowlease.errors import ConfigError
from rowlease.store import engine_of
from tests.commands import Run, in_process

#: Prints its arguments and what it finds in its environment.
FAKE = """#!/bin/sh
echo "$@"
echo "$PGPASSWORD"
exit 3
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return partial(in_process(tmp_path))


def test_the_url_is_that_of_the_argument_or_the_environment(run: Run) -> None:
    for done in (
        run("url", "--dsn", "postgresql://a:b@h/d"),
        run("url", ROWLEASE_DSN="mssql://h/d"),
    ):
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "mssql://h/d\n"


def test_psql_gets_its_arguments_and_the_password_by_the_environment(
    run: Run, tmp_path: Path
) -> None:
    fake = tmp_path / "bin" / "psql"
    fake.parent.mkdir()
    fake.write_text(FAKE)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    done = run(
        "psql", "-c", "select 1", "--csv",
        ROWLEASE_DSN="postgresql+psycopg://me:s%20cret@h:5433/d?sslmode=require",
        PATH=f"{fake.parent}:/usr/bin:/bin",
    )  # fmt: skip
    arguments, password = done.stdout.splitlines()
    assert arguments.startswith("-c select 1 --csv --dbname ")
    parts = dict(part.split("=") for part in arguments.split()[5:])
    assert parts == {
        "user": "me", "host": "h", "port": "5433", "dbname": "d", "sslmode": "require",
    }  # fmt: skip
    assert (password, done.returncode, done.stderr) == ("s cret", 3, "")


def test_psql_cannot_open_sql_server() -> None:
    with pytest.raises(ConfigError, match=r"^mssql://sa:\*\*\*@h/d is SQL Server; use sqlcmd$"):
        engine_of("mssql://sa:secret@h/d").psql_connection()


def test_what_old_versions_of_psql_do_not_know_is_in_the_environment() -> None:
    assert engine_of("postgresql://h/d").psql_connection() == (
        "dbname=d host=h",
        {},
    )
    found = engine_of("postgresql://:s@h/d?require_auth=scram-sha-256").psql_connection()
    assert found == (
        "dbname=d host=h",
        {"PGPASSWORD": "s", "PGREQUIREAUTH": "scram-sha-256"},
    )
