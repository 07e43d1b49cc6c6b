"""A schema that somebody else made before the first migration, and rights of strangers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from rowlease.errors import AccessDenied, SchemaMismatch
from rowlease.model import NewRequest
from rowlease.store import engine_of, migrate, open_store
from tests.commands import in_test
from tests.conftest import in_database, scratch_database

#: Whatever calls this function as a superuser makes its owner one.
SPY = """
create function rowlease.spy() returns text language plpgsql as $$
begin
  execute format('alter role %I superuser', (select nspowner::regrole::text from pg_namespace
                                              where nspname = 'rowlease'));
  return '0001';
end $$;
"""
FUNCTIONS = {
    name: f"create function rowlease.{name}({params}) returns {returns} language plpgsql as $$"
    " begin perform rowlease.spy(); return; end $$;"
    for name, params, returns in (
        ("schema_version", "", "table (revision text, oldest_client text)"),
        ("now", "out timestamptz", "timestamptz"),
        ("depth", "", "table (queue_name text, priority integer)"),
        ("list_queues", "", "table (queue_name text)"),
        ("maintain", "p_limit integer default 1", "table (what text, num_rows bigint)"),
    )
}
#: What the stranger puts into the schema.
TRAPS = {
    "nothing at all": "",
    "a view in place of Alembic's table": "create view rowlease.alembic_version as"
    " select rowlease.spy() as version_num",
    "a table": "create table rowlease.alembic_version (version_num text);"
    " insert into rowlease.alembic_version values ('0001')",
    "a rule": "create table rowlease.t (x text); create rule spied as on insert to rowlease.t"
    " do instead select rowlease.spy() as x",
    "a trigger": "create table rowlease.alembic_version (version_num text);"
    " create function rowlease.fire() returns trigger language plpgsql as"
    " $$ begin perform rowlease.spy(); return new; end $$;"
    " create trigger fire before insert or update or delete on rowlease.alembic_version"
    " for each row execute function rowlease.fire()",
    "a generated column": "create table rowlease.queue (x int, y text)",
    "a type": "create type rowlease.queue as (x int)",
    "a domain": "create domain rowlease.queue as text check (rowlease.spy() is not null)",
    "an operator": "create function rowlease.equal(text, text) returns boolean language sql as"
    " $$ select rowlease.spy() is not null $$;"
    " create operator rowlease.= (function = rowlease.equal, leftarg = text, rightarg = text)",
    "an aggregate": "create aggregate rowlease.max(int) (sfunc = int4larger, stype = int)",
    "a materialized view": "create materialized view rowlease.alembic_version as"
    " select '0001'::text as version_num",
    "a policy": "create table rowlease.alembic_version (version_num text);"
    " create policy p on rowlease.alembic_version using (rowlease.spy() is not null);"
    " alter table rowlease.alembic_version enable row level security, force row level security",
    "a sequence": "create sequence rowlease.queue_request_id_seq",
    "a view of the requests": "create view rowlease.requests as select rowlease.spy() as x",
    **{f"a routine {name}": text for name, text in FUNCTIONS.items()},
    "six routines": "".join(FUNCTIONS.values()),
}
TASKS = "from rowlease import task\n\n\n@task\ndef noop() -> None: ...\n"
COMMANDS = (
    "migrate", "migrate --check", "migrate --sql", "depth", "doctor", "queue list",
    "requests list", "worker squatted_tasks --burst", "exporter --once", "requests explain 1",
)  # fmt: skip


@pytest.fixture(scope="module")
def squatted(server_dsn: str) -> Iterator[tuple[str, str]]:
    """A database where a role without any right but CREATE makes the schema first; and its name."""
    mallory = f"mallory_{secrets.token_hex(4)}"
    with (
        scratch_database(server_dsn) as database,
        psycopg.connect(server_dsn, autocommit=True) as admin,
    ):
        admin.execute(f"create role {mallory}")
        admin.execute(f"grant create on database {database} to {mallory}")
        yield in_database(server_dsn, database), mallory
        with psycopg.connect(in_database(server_dsn, database), autocommit=True) as own:
            own.execute(f"drop owned by {mallory} cascade")
        admin.execute(f"drop role {mallory}")


# Each trap meets three commands, each command six traps.
@pytest.mark.parametrize(
    ("trap", "commands"),
    [
        (trap, [COMMANDS[(place + 3 * i) % len(COMMANDS)] for i in range(3)])
        for place, trap in enumerate(TRAPS)
    ],
)
def test_nothing_in_the_schema_of_a_stranger_is_called(
    trap: str, commands: list[str], squatted: tuple[str, str], tmp_path: Path
) -> None:
    dsn, mallory = squatted
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"set role {mallory}; create schema rowlease; {SPY} {TRAPS[trap]}")
        admin.execute("reset role")
        (tmp_path / "squatted_tasks.py").write_text(TASKS)
        run = in_test(tmp_path)
        for command in commands:
            done = run(*command.split(), ROWLEASE_DSN=dsn)
            assert done.returncode != 0, command
            assert f"belongs to {mallory}, and not to rowlease_owner" in done.stderr, command
        is_super = "select rolsuper from pg_roles where rolname = %s"
        assert admin.execute(is_super, [mallory]).fetchall() == [(False,)]
        made = admin.execute("select nspname from pg_namespace where nspname like 'rowlease%'")
        assert made.fetchall() == [("rowlease",)], "something was made beside the trap"
        admin.execute("drop schema rowlease cascade")


@pytest.mark.parametrize(
    "thing",
    ["view rowlease.v as select 1 as x", "type rowlease.t as (x int)", "sequence rowlease.s"],
)
def test_the_first_migration_wants_an_empty_schema(thing: str, server_dsn: str) -> None:
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"create schema rowlease; create {thing}")
            with pytest.raises(SchemaMismatch, match=r"not empty: it has .*drop the schema first"):
                migrate(dsn)
            with pytest.raises(psycopg.Error, match="not empty"):
                connection.execute(engine_of(dsn).migration_sql().encode())
            connection.rollback()
            connection.execute("drop schema rowlease cascade; create schema rowlease")
        assert migrate(dsn).changed


def test_a_migration_revokes_what_the_release_does_not_grant(server_dsn: str) -> None:
    stranger = f"stranger_{secrets.token_hex(4)}"
    friend = f"friend_{secrets.token_hex(4)}"
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as admin:
            for role in (stranger, friend):
                admin.execute(f"create role {role}")
            admin.execute(
                f"grant create, usage on schema rowlease, rowlease_internal to {stranger};"
                f"grant select on rowlease.queue to {stranger} with grant option;"
                f"set role {stranger}; grant select on rowlease.queue to {friend}; reset role;"
                f"grant update (payload) on rowlease.queue to {stranger};"
                f"grant execute on function rowlease.dequeue to {stranger}, public;"
                f"grant execute on all functions in schema rowlease_internal to {stranger};"
                f"grant all on all sequences in schema rowlease to {stranger}, public;"
                "grant execute on function rowlease.enqueue to rowlease_reader;"
                "grant delete on rowlease.queue to rowlease_operator;"
                "delete from rowlease.schema_info"  # the next migration puts everything in place
            )
            assert engine_of(dsn).schema_differences()
            migrate(dsn)
            assert engine_of(dsn).schema_differences() == []
            left = admin.execute(
                "select count(*) from pg_shdepend d join pg_roles r on r.oid = d.refobjid"
                " where r.rolname = any(%s) and d.deptype = 'a'",
                [[stranger, friend]],
            )
            assert left.fetchall() == [(0,)]
            admin.execute(f"drop role {stranger}; drop role {friend}")


def test_a_partition_of_the_history_is_not_for_everybody(server_dsn: str) -> None:
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(
                "alter default privileges for role rowlease_owner grant all on tables to public;"
                "create or replace function rowlease.now() returns timestamptz language sql"
                " as $$ select clock_timestamp() + interval '9 days' $$"
            )
            admin.execute("select rowlease.maintain()")
            may = admin.execute(
                "select relname, has_table_privilege('public', oid, 'select') from pg_class"
                " where relname ~ '^queue_history_[0-9]+$'"
            ).fetchall()
            assert len(may) >= 2
            assert not any(reads for _, reads in may), may
            partition = may[0][0]
            admin.execute(f"grant select, insert on rowlease.{partition} to public")
            found = [(one.object, one.advice) for one in engine_of(dsn).schema_differences()]
            grants = [
                f"grant {right} on rowlease.{partition} to public" for right in ("insert", "select")
            ]
            assert [one for one in found if one[0].startswith("grant")] == [
                (grant, "revoke it") for grant in grants
            ]
            admin.execute("delete from rowlease.schema_info")
            migrate(dsn)
            assert not [
                one for one in engine_of(dsn).schema_differences() if "queue_history_" in one.object
            ]


def test_row_level_security_on_a_table_is_named(server_dsn: str) -> None:
    with scratch_database(server_dsn) as name:
        dsn = in_database(server_dsn, name)
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as admin, closing(open_store(dsn)) as store:
            on = "enable row level security, force row level security"
            off = "disable row level security, no force row level security"
            admin.execute(f"alter table rowlease.queue {on}")
            with pytest.raises(AccessDenied, match="somebody has switched on row level security"):
                store.enqueue_many("default", [NewRequest(kind="a")])
            (one,) = engine_of(dsn).schema_differences()
            assert one.object == "table rowlease.queue"
            assert "row level security" in str(one.found)
            admin.execute(f"alter table rowlease.queue {off}")
            assert engine_of(dsn).schema_differences() == []
            store.enqueue_many("default", [NewRequest(kind="a")])
