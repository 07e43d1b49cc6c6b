"""`rowlease migrate`: every way to this version ends in the same schema."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory
from click.testing import CliRunner

import rowlease
from rowlease.cli.migrate import migrate as migrate_command
from rowlease.errors import SchemaMismatch, StoreError
from rowlease.model import NewRequest
from rowlease.store import Migrated, engine_of, migrate, open_store
from rowlease.store import revisions as revisions_module
from rowlease.store.differences import read_catalogue
from rowlease.store.postgresql import migrate as module
from rowlease.store.postgresql.migrate import MIGRATION_LOCK
from rowlease.store.revisions import revisions
from rowlease.store.routines import Routine, all_files, packaged_folder, read_routine
from tests.conftest import in_database, scratch_database
from tests.migrations.catalogue import snapshot
from tests.releases import migrate as releases_migrate
from tests.releases import releases
from tests.waiting import until

REVISIONS = revisions()
HEAD = REVISIONS[-1]

NEWER = "update rowlease.alembic_version set version_num = '9999'"

NEXT_REVISION = f'''
"""One revision more than there is.

Revision ID: next
Revises: {HEAD}
"""

from alembic import op

revision = "next"
down_revision = "{HEAD}"


def upgrade() -> None:
    op.execute("create table rowlease.added (x integer)")
'''

WAITING = """
select count(*)::int from pg_locks l join pg_database d on d.oid = l.database
 where d.datname = current_database() and l.locktype = 'advisory' and not l.granted
"""

OLD_ROUTINE = """\
-- old_routine: a routine of an earlier version.
-- params:   none
-- returns:  integer
-- errors:   none
-- locks:    none
-- why:      migrate drops what is no longer in sql/.
create or replace function rowlease.old_routine() returns integer language sql return 1;
"""


@pytest.fixture
def empty(server_dsn: str) -> Iterator[str]:
    """A database in which nothing has ever been made."""
    with scratch_database(server_dsn) as name:
        yield in_database(server_dsn, name)


@pytest.fixture(scope="module")
def first(server_dsn: str) -> Iterator[str]:
    """The name of a database that was empty and is migrated, to be copied."""
    with scratch_database(server_dsn) as name:
        migrate(in_database(server_dsn, name))
        yield name


@pytest.fixture(scope="module")
def fresh(server_dsn: str, first: str) -> dict[str, str]:
    """The schema that an empty database gets."""
    return snapshot(in_database(server_dsn, first))


@pytest.fixture
def migrated(server_dsn: str, first: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with scratch_database(server_dsn, first) as name:
        yield in_database(server_dsn, name)


@pytest.fixture
def with_scripts(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Routine]], None]:
    """Let `migrate` find other files in sql/ than there are."""

    def give(files: list[Routine]) -> None:
        digest = hashlib.sha256("".join(file.body for file in files).encode()).hexdigest()
        for reader in (module, revisions_module):
            monkeypatch.setattr(reader, "all_files", lambda engine: files)
            monkeypatch.setattr(reader, "scripts_hash", lambda engine: digest)

    return give


def run(dsn: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text)
        return [] if cursor.description is None else cursor.fetchall()


def alembic(repository: Path, dsn: str, *arguments: str) -> None:
    """Run Alembic itself, as alembic.ini documents for a checkout."""
    subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(repository / "alembic.ini"), *arguments],
        env={**os.environ, "ROWLEASE_DSN": dsn},
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_upgrade_path_ends_in_the_fresh_schema(
    revision: str, empty: str, fresh: dict[str, str], repository: Path
) -> None:
    alembic(repository, empty, "upgrade", revision)
    done = migrate(empty)
    assert done.from_revision == revision
    assert done.changed
    found = snapshot(empty)
    for what, rows in fresh.items():
        assert found[what] == rows, what


def test_the_files_are_in_the_order_in_which_alembic_runs_them() -> None:
    walk = ScriptDirectory(str(packaged_folder("migrations"))).walk_revisions()
    assert [revision.revision for revision in walk] == REVISIONS[::-1]


def test_the_release_ships_the_catalogue_of_a_fresh_database(fresh: dict[str, str]) -> None:
    wanted = read_catalogue("postgresql")
    assert {name: fresh.get(name) for name in wanted} == wanted, (
        "python -m tests.migrations.catalogue"
    )
    assert fresh.keys() - wanted.keys() == {"settings", "gates", "revision", "routines_hash"}


CHANGES = {
    "grant usage on schema rowlease_internal to public": (
        "grant usage on schema rowlease_internal to public",
        None,
        "",
    ),
    "alter table rowlease.queue set (fillfactor = 84)": ("table rowlease.queue", "=85", "=84"),
    "alter table rowlease.queue set (autovacuum_analyze_scale_factor = 1)": (
        "table rowlease.queue",
        "analyze_scale_factor=0.1",
        "analyze_scale_factor=1",
    ),
    "alter table rowlease.lane set unlogged": ("table rowlease.lane", "owner", "unlogged"),
    "alter table rowlease.queue owner to current_user": ("table rowlease.queue", "_owner", "owner"),
    "grant select on rowlease.inbox to rowlease_worker": (
        "grant select on rowlease.inbox to rowlease_worker",
        None,
        "",
    ),
    "create table rowlease.more ()": ("table rowlease.more", None, "owner"),
    "alter table rowlease.load alter column columns type varchar(9)": (
        "column rowlease.load.columns",
        "text",
        "varying(9)",
    ),
    "alter table rowlease.queue alter column kind drop not null": (
        "column rowlease.queue.kind",
        "not null",
        "",
    ),
    "alter table rowlease.queue alter column num_crashes set default 1": (
        "column rowlease.queue.num_crashes",
        "default 0",
        "default 1",
    ),
    "alter table rowlease.queue drop column returned cascade": (
        "column rowlease.queue.returned",
        "boolean",
        None,
    ),
    "grant select (kind) on rowlease.queue to rowlease_worker": (
        "grant select on rowlease.queue.kind to rowlease_worker",
        None,
        "",
    ),
    "alter table rowlease.load drop constraint load_status": (
        "constraint rowlease.load.load_status",
        "Staging",
        None,
    ),
    "alter domain rowlease_internal.queue_rule drop constraint queue_due": (
        "domain rowlease_internal.queue_rule",
        "queue_due",
        "queue_status",
    ),
    "drop index rowlease.queue_illegal": ("index rowlease.queue_illegal", "queue_due", None),
    "drop index rowlease.queue_failed": ("index rowlease.queue_failed", "btree", None),
    "alter table rowlease.queue disable trigger fill_request": (
        "trigger rowlease.queue.fill_request",
        "BEFORE INSERT",
        "not enabled",
    ),
    "do $$ begin execute (select format('create or replace view rowlease.requests as select %s,"
    " null::text as error_line from rowlease.queue_history',"
    " string_agg(attname, ', ' order by attnum))"
    " from pg_attribute where attrelid = 'rowlease.requests'::regclass and attnum > 0"
    " and attname <> 'error_line'); end $$": (
        "view rowlease.requests",
        "UNION",
        "owner",
    ),
    "alter function rowlease.remove_worker reset search_path": (
        "routine rowlease.remove_worker",
        "fingerprint",
        "fingerprint",
    ),
    "create or replace function rowlease.now() returns timestamptz return current_timestamp": (
        "routine rowlease.now",
        "fingerprint",
        "fingerprint",
    ),
    "drop function rowlease_internal.check_capacity": (
        "routine rowlease_internal.check_capacity",
        "finger",
        None,
    ),
    "grant execute on function rowlease.remove_worker to public": (
        "grant execute on rowlease.remove_worker() to public",
        None,
        "",
    ),
    "revoke execute on function rowlease.enqueue from rowlease_producer": (
        "grant execute on rowlease.enqueue() to rowlease_producer",
        "",
        None,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_check_names_every_kind_of_difference(change: str, migrated: str) -> None:
    assert engine_of(migrated).schema_differences() == []
    run(migrated, change)
    name, wanted, found = CHANGES[change]
    (one,) = (one for one in engine_of(migrated).schema_differences() if one.object == name)
    for part, definition in ((wanted, one.expected), (found, one.found)):
        assert (part is None) == (definition is None)
        assert part is None or part in (definition or "")
    assert one.expected != one.found
    if one.advice.startswith("drop it, delete"):
        schema, table, trigger = name.removeprefix("trigger ").split(".")
        run(migrated, f"drop trigger {trigger} on {schema}.{table}")
    if "run `rowlease migrate`" in one.advice:
        run(migrated, "delete from rowlease.schema_info")
        migrate(migrated)
        assert name not in [one.object for one in engine_of(migrated).schema_differences()]


def test_the_command_prints_each_difference_and_what_to_do(migrated: str) -> None:
    command = ["--check", "--dsn", migrated]
    unchanged = CliRunner().invoke(migrate_command, command)
    assert (unchanged.exit_code, unchanged.output.count("\n")) == (0, 1)
    assert unchanged.output.endswith(": no differences from this release\n")
    run(migrated, "drop index rowlease.queue_failed")
    run(migrated, "create index mine on rowlease.queue (kind)")
    run(migrated, "alter table rowlease.load alter column past_runs type varchar(9)")
    done = CliRunner().invoke(migrate_command, command)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    assert lines[0] == (
        "changed: column rowlease.load.past_runs: character varying(9) not null default ''::text; "
        "change it to what the migrations make: text not null default ''::text"
    )
    assert lines[1] == "not part of rowlease: index rowlease.mine; drop it, unless it is yours"
    assert lines[2].startswith(
        "missing: index rowlease.queue_failed; run `rowlease migrate`, which creates it while"
    )
    assert lines[3].endswith(": 3 differences from this release")
    found = json.loads(CliRunner().invoke(migrate_command, [*command, "--json"]).output)
    assert [one["advice"] for one in found["differences"]] == [
        line.split("; ", 1)[1] for line in lines[:3]
    ]


PRINTED = """
select format('alter table %s drop constraint %I, add constraint %I %s',
              conrelid::regclass, conname, conname, pg_get_constraintdef(oid))
  from pg_constraint
 where connamespace = 'rowlease'::regnamespace and contype = 'c' and conislocal
union all
select pg_get_functiondef(oid) from pg_proc
 where pronamespace in ('rowlease'::regnamespace, 'rowlease_internal'::regnamespace)
union all
select format('create or replace view %s as %s', oid::regclass, pg_get_viewdef(oid)) from pg_class
 where relnamespace = 'rowlease'::regnamespace and relkind = 'v'
"""


def test_a_restored_dump_has_no_differences(migrated: str) -> None:
    """A dump has the definitions that the server prints, which may not be those that it read."""
    for (definition,) in run(migrated, PRINTED):
        run(migrated, definition)
    assert engine_of(migrated).schema_differences() == []


def test_a_database_of_another_revision_is_not_compared(empty: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `rowlease migrate`"):
        engine_of(empty).schema_differences()
    migrate(empty)
    run(empty, NEWER)
    with pytest.raises(SchemaMismatch, match="migrated by a newer release"):
        engine_of(empty).schema_differences()


def test_migrating_again_changes_nothing(empty: str) -> None:
    first = migrate(empty)
    before = snapshot(empty)
    second = migrate(empty)
    assert first == Migrated(None, HEAD, len(all_files("postgresql")), changed=True)
    assert second == Migrated(HEAD, HEAD, first.routines, changed=False)
    assert snapshot(empty) == before


def test_requests_survive_another_migrate(migrated: str) -> None:
    run(migrated, "select * from rowlease.enqueue('default', 'x')")
    run(migrated, "update rowlease.schema_info set routines_hash = 'other'")
    assert migrate(migrated).changed
    assert run(migrated, "select kind, status from rowlease.queue") == [("x", "Pending")]


def test_migrates_at_once_take_turns(empty: str) -> None:
    """All of them wait for the lock before the first may begin."""
    command = [sys.executable, "-m", "rowlease", "migrate", "--dsn", empty, "--json"]
    source = str(Path(rowlease.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    with psycopg.connect(empty) as first:
        first.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
        racers = [
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
            for _ in range(4)
        ]
        ends = time.monotonic() + 60
        while run(empty, WAITING) != [(4,)]:
            assert time.monotonic() < ends, [racer.poll() for racer in racers]
            time.sleep(0.02)
        assert run(empty, "select to_regnamespace('rowlease')") == [(None,)]
    printed = [racer.communicate(timeout=200) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4, printed
    assert sum(b'"changed": true' in out for out, _ in printed) == 1


def test_a_routine_that_left_sql_is_dropped(
    empty: str, tmp_path: Path, with_scripts: Callable[[list[Routine]], None]
) -> None:
    file = tmp_path / "old_routine.sql"
    file.write_text(OLD_ROUTINE)
    current = list(all_files("postgresql"))
    with_scripts([read_routine(file), *current])
    migrate(empty)
    assert run(empty, "select rowlease.old_routine()") == [(1,)]

    with_scripts(current)
    assert migrate(empty).changed
    gone = "select count(*) from pg_proc where proname = 'old_routine'"
    assert run(empty, gone) == [(0,)]


def test_nothing_is_applied_when_one_file_is_broken(
    migrated: str, tmp_path: Path, with_scripts: Callable[[list[Routine]], None]
) -> None:
    before = snapshot(migrated)
    file = tmp_path / "old_routine.sql"
    file.write_text(OLD_ROUTINE.replace("return 1", "return nonsense"))
    with_scripts([*all_files("postgresql"), read_routine(file)])
    with pytest.raises(StoreError, match="nonsense") as raised:
        migrate(migrated)
    assert isinstance(raised.value.__cause__, psycopg.Error)
    assert snapshot(migrated) == before


def test_a_body_that_was_edited_by_hand_comes_back_with_the_next_version(
    migrated: str, fresh: dict[str, str]
) -> None:
    edited = (
        "create or replace function rowlease.now() returns timestamptz return current_timestamp"
    )
    run(migrated, edited)
    assert not migrate(migrated).changed, "the files are what was applied last"
    assert snapshot(migrated) != fresh
    run(migrated, "update rowlease.schema_info set routines_hash = 'an older version'")
    assert migrate(migrated).changed
    assert snapshot(migrated) == fresh


def test_a_new_table_gets_its_owner_and_grants_although_no_routine_changed(
    migrated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = tmp_path / "migrations"
    shutil.copytree(packaged_folder("migrations"), newer)
    (newer / "versions" / "next.py").write_text(NEXT_REVISION)
    monkeypatch.setattr(revisions_module, "packaged_folder", lambda folder: newer)
    done = migrate(migrated)
    assert (done.from_revision, done.to_revision, done.changed) == (HEAD, "next", True)
    assert run(
        migrated,
        "select pg_get_userbyid(relowner), has_table_privilege('rowlease_reader', oid, 'select')"
        " from pg_class where oid = 'rowlease.added'::regclass",
    ) == [("rowlease_owner", True)]


def test_a_newer_schema_that_this_release_works_with_is_left_alone(migrated: str) -> None:
    run(migrated, NEWER)
    before = snapshot(migrated)
    done = migrate(migrated)
    assert (done.to_revision, done.changed, done.newer) == ("9999", False, True)
    assert snapshot(migrated) == before
    with closing(open_store(migrated)) as store:
        store.check_schema()


def test_a_newer_schema_that_this_release_does_not_work_with_is_refused(migrated: str) -> None:
    run(migrated, NEWER)
    run(migrated, "update rowlease.schema_info set oldest_client = '9999'")
    before = snapshot(migrated)
    with pytest.raises(SchemaMismatch, match="schema 9999, which works with releases of schema"):
        migrate(migrated)
    assert snapshot(migrated) == before
    with closing(open_store(migrated)) as store, pytest.raises(SchemaMismatch, match="install a"):
        store.check_schema()


def test_a_checkout_that_was_never_installed_is_not_older_than_any_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert revisions_module.is_older("99.0.0")
    monkeypatch.setattr(revisions_module, "own_version", lambda: "unknown")
    assert not revisions_module.is_older("0.1.0")


@pytest.mark.parametrize(("release", "changed"), [("99.0.0", False), ("0.0.9", True)])
def test_routines_of_a_newer_release_are_left_alone(
    release: str, changed: bool, migrated: str
) -> None:
    """A pod of the last release that restarts in the middle of a roll-out runs `migrate`, too."""
    run(migrated, f"update rowlease.schema_info set release = '{release}', routines_hash = 'other'")
    assert migrate(migrated).changed == changed


def test_the_script_for_a_dba_makes_the_fresh_schema(empty: str, fresh: dict[str, str]) -> None:
    script = engine_of(empty).migration_sql()
    assert run(empty, "select to_regnamespace('rowlease')") == [(None,)], "it only printed"
    run(empty, script)
    assert snapshot(empty) == fresh
    assert not migrate(empty).changed
    assert "nothing to do" in engine_of(empty).migration_sql()


def test_the_script_for_a_dba_replaces_the_routines_of_another_release(
    migrated: str, fresh: dict[str, str]
) -> None:
    run(migrated, "create function rowlease.old_routine() returns integer language sql return 1")
    run(migrated, "create or replace function rowlease.now() returns timestamptz return now()")
    run(migrated, "update rowlease.schema_info set routines_hash = 'other'")
    run(migrated, engine_of(migrated).migration_sql())
    assert snapshot(migrated) == fresh


def test_the_script_for_a_dba_does_not_wait_long_for_a_table(migrated: str) -> None:
    run(migrated, "update rowlease.schema_info set routines_hash = 'other'")
    script = engine_of(migrated).migration_sql()
    with psycopg.connect(migrated) as backup:
        backup.execute("lock rowlease.schema_info")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(migrated, script)


def test_new_routines_wait_for_no_reader_or_writer_of_a_table(migrated: str) -> None:
    run(migrated, "update rowlease.schema_info set routines_hash = 'other'")
    tables = "select string_agg(oid::regclass::text, ', ') from pg_class"
    ours = "relnamespace in ('rowlease'::regnamespace, 'rowlease_internal'::regnamespace)"
    with psycopg.connect(migrated) as others:
        ((names,),) = run(migrated, f"{tables} where relkind in ('r', 'p') and {ours}")
        others.execute(f"lock {names} in row exclusive mode")
        run(migrated, engine_of(migrated).migration_sql())


def test_a_standby_or_read_only_database_is_an_error_of_one_sentence(empty: str) -> None:
    name = empty.rpartition("/")[2]
    run(empty, f"alter database {name} set default_transaction_read_only = on")
    with pytest.raises(StoreError, match="read-only transaction"):
        migrate(empty)


def test_the_clock_and_isolation_of_the_database_do_not_matter(
    empty: str, fresh: dict[str, str]
) -> None:
    name = empty.rpartition("/")[2]
    run(empty, f"alter database {name} set default_transaction_isolation = 'serializable'")
    run(empty, f"alter database {name} set timezone = 'Asia/Kathmandu'")
    run(empty, f"alter database {name} set search_path = ''")
    migrate(empty)
    run(empty, f"alter database {name} reset all")
    assert snapshot(empty) == fresh


def test_a_deadlock_with_a_worker_is_no_end_of_a_migration(
    dsn: str, repository: Path, tmp_path: Path
) -> None:
    """The worker holds a table that the migration changes last, and asks for one it has changed."""
    new = releases(repository, tmp_path).new
    with (
        psycopg.connect(dsn) as worker,
        psycopg.connect(dsn, autocommit=True) as watcher,
        ThreadPoolExecutor(1) as thread,
    ):
        worker.execute("set deadlock_timeout = '10min'")  # the migration is what the server ends
        worker.execute("select from rowlease.load")
        database = watcher.info.dbname
        watcher.execute(f"alter database {database} set deadlock_timeout = '300ms'")
        printed = thread.submit(releases_migrate, new, dsn)
        until(lambda: watcher.execute("select from pg_locks where not granted").rowcount)
        assert not printed.done(), printed.result()
        worker.execute("select from rowlease.queue")
        assert not printed.done()
        worker.commit()
        assert "to schema" in printed.result()


def test_queues_work_while_a_migration_waits_for_a_long_transaction(
    dsn: str, repository: Path, tmp_path: Path
) -> None:
    """Whoever comes after a migration that waits for a table would wait for it, too."""
    new = releases(repository, tmp_path).new
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(dsn) as backup,
        closing(open_store(dsn, call_timeout=timedelta(seconds=15))) as store,
        psycopg.connect(dsn, autocommit=True) as watcher,
    ):
        backup.execute("select from rowlease.queue")
        printed = thread.submit(releases_migrate, new, dsn)
        until(lambda: watcher.execute("select from pg_locks where not granted").rowcount)
        assert not printed.done(), printed.result()
        store.enqueue_many("default", [NewRequest(kind="k")])
        assert not printed.done()
        backup.commit()
        assert "to schema" in printed.result()
