"""The users of docker-compose.yml as psql makes them, and the commands of the runbook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rowlease import Client
from rowlease.embedded.binaries import psql, server_binaries
from rowlease.errors import AccessDenied
from rowlease.model import Held
from rowlease.store import engine_of, open_store
from rowlease.store.routines import load_routines
from tests.conftest import in_database, scratch_database

Sql = Callable[..., list[tuple[Any, ...]]]
USERS = ("worker", "reader")


@pytest.fixture
def users(dsn: str, sql: Sql, repository: Path) -> Iterator[dict[str, str]]:
    """The DSN of each user that the script made, when it had run twice."""
    place, variables = engine_of(dsn).psql_connection()
    script = repository / "deploy" / "compose" / "users_postgresql.sql"
    command = [
        str(psql()),
        "--no-psqlrc",
        "--quiet",
        "--set",
        "ON_ERROR_STOP=1",
        "--file",
        str(script),
    ]
    for number in (1, 2):
        passwords = {f"{name.upper()}_PASSWORD": f"{name}'{number}" for name in USERS}
        environment = {**os.environ, **passwords, **variables}
        subprocess.run([*command, "--dbname", place], env=environment, check=True)
    yield {
        name: sa.make_url(dsn)
        .set(username=name, password=f"{name}'2")
        .render_as_string(hide_password=False)
        for name in USERS
    }
    for name in USERS:
        sql(f"drop role {name}")


def test_users_of_compose_have_one_role_each(users: dict[str, str]) -> None:
    with closing(open_store(users["worker"])) as store:
        assert store.dequeue("one", ["default"], 1).requests == []
        with pytest.raises(AccessDenied):
            store.pause("default")
    with closing(open_store(users["reader"])) as store:
        assert store.metrics()
        with pytest.raises(AccessDenied):
            store.dequeue("one", ["default"], 1)
    with psycopg.connect(users["reader"]) as connection:
        found = connection.execute("select pg_has_role('pg_read_all_stats', 'usage')").fetchone()
        assert found == (True,)


def commands(repository: Path, page: str, heading: str) -> list[str]:
    """The blocks of commands below a heading of a page."""
    text = (repository / "docs" / page).read_text()
    section = text.partition(f"# {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w*)\n(.+?)^```", section, re.M | re.S)
    return [text for language, text in blocks if not language]


def run(script: str, folder: Path, **variables: str) -> str:
    """Run the commands as a shell does, with the programs of this environment."""
    path = [str(Path(sys.executable).parent), str(server_binaries()[0]), os.environ["PATH"]]
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(path), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def shipped(dsn: str) -> str:
    """The test's database with the routine `now` of the release."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(load_routines("postgresql")["now"].body)
    return dsn


def test_a_backup_is_restored_as_the_runbook_says(
    shipped: str, server_dsn: str, repository: Path, tmp_path: Path
) -> None:
    back_up, restore = commands(repository, "recovery.md", "Back up and restore")
    with Client(shipped) as client:
        first = client.enqueue_untyped("a", {"x": 1}).request_id
        (leased,) = client.store.dequeue("one", ["default"], 1).requests
        client.store.complete([Held(leased.request_id, leased.lock_token)])
    run(back_up, tmp_path, ROWLEASE_DSN=shipped)
    assert "rowlease_worker" in (tmp_path / "roles.sql").read_text()
    with scratch_database(server_dsn) as name:
        restored = in_database(server_dsn, name)
        said = run(restore, tmp_path, RESTORED_DSN=restored)
        assert "no differences" in said
        assert "no findings" in said
        with Client(restored) as client:
            found = client.get(first)
            assert found.status() == "Complete"
            assert client.enqueue_untyped("a").request_id >= first + 1_000_000


def test_the_commands_of_the_runbook_run(shipped: str, repository: Path, tmp_path: Path) -> None:
    for page, heading in (("install.md", "Upgrade"), ("alerts.md", "Alerts")):
        for script in commands(repository, page, heading):
            run(script, tmp_path, ROWLEASE_DSN=shipped)
