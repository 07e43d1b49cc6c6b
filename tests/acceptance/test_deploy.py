"""The users of docker-compose.yml, as psql makes them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rowlease.embedded.binaries import psql
from rowlease.errors import AccessDenied
from rowlease.store import open_store, psql_connection

Sql = Callable[..., list[tuple[Any, ...]]]
USERS = ("worker", "reader")


@pytest.fixture
def users(dsn: str, sql: Sql, repository: Path) -> Iterator[dict[str, str]]:
    """The DSN of each user that the script made, when it had run twice."""
    place, password = psql_connection(dsn)
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
        environment = {**os.environ, **passwords, "PGPASSWORD": password or ""}
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
