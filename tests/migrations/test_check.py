"""`rowlease migrate --check` on SQL Server. On PostgreSQL it is tested in test_migrate.py.

Where Babelfish serves, what it does not keep is left out of the comparison, in `kept_by_babelfish`
and nowhere else; tests/unit/test_catalogue.py has rows as SQL Server's own catalog views have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from rowlease.cli.migrate import migrate
from rowlease.errors import AccessDenied, SchemaMismatch
from rowlease.store import engine_of
from rowlease.store.differences import Difference, read_catalogue
from rowlease.store.routines import Routine, all_files
from rowlease.store.sqlserver import catalogue
from tests.contract import sqlserver

pytestmark = pytest.mark.skipif(
    sqlserver.missing() is not None, reason=sqlserver.missing() or "it is there"
)

#: The test's database has a clock that can be stopped.
CLOCK = "routine rowlease.now"
REINSTALL = "delete the row of rowlease.SchemaInfo and run `rowlease migrate`"

#: A change, the object that then differs, and parts of its expected and found definition.
CHANGES = {
    "alter table rowlease.Worker add Extra int null": ("column rowlease.Worker.Extra", None, "int"),
    "alter table rowlease.Worker drop column Kinds": (
        "column rowlease.Worker.Kinds", "nvarchar(max)", None,
    ),
    "alter table rowlease.Worker alter column Slots bigint": (
        "column rowlease.Worker.Slots", "int not null", "bigint",
    ),
    "alter table rowlease.Worker drop column Pid; alter table rowlease.Worker add Pid int null": (
        "column rowlease.Worker.Pid", "not null", "int",
    ),
    "alter table rowlease.UnknownKind alter column UnknownSince datetime2(3)": (
        "column rowlease.UnknownKind.UnknownSince", "datetime2(6)", "datetime2(3)",
    ),
    "alter table rowlease.Queue drop constraint queue_status": (
        "constraint rowlease.Queue.queue_status", "'Scheduled'", None,
    ),
    "alter table rowlease.Progress drop constraint progress_fraction;"
    "alter table rowlease.Progress add constraint progress_fraction check (Fraction <= 2)": (
        "constraint rowlease.Progress.progress_fraction", "<= 1", "<= 2",
    ),
    "alter table rowlease.Worker drop constraint worker_pkey": (
        "constraint rowlease.Worker.worker_pkey", "(WorkerId)", None,
    ),
    "drop index queue_failed on rowlease.Queue": (
        "index rowlease.Queue.queue_failed", "(QueueName, RequestId)", None,
    ),
    "drop index schedule_planned on rowlease.Schedule;"
    "create index schedule_planned on rowlease.Schedule (NextTime desc) include (Kind)": (
        "index rowlease.Schedule.schedule_planned", "(NextTime)", "(NextTime desc) include (Kind)",
    ),
    "create table rowlease_internal.More (a int)": ("table rowlease_internal.More", None, ""),
    "create procedure rowlease.wave as select 1": ("routine rowlease.wave", None, "fingerprint"),
    "drop procedure rowlease_internal.check_capacity": (
        "routine rowlease_internal.check_capacity", "fingerprint", None,
    ),
    "drop view rowlease.Requests": ("view rowlease.Requests", "fingerprint", None),
    "drop trigger rowlease.fill_request": ("trigger rowlease.fill_request", "fingerprint", None),
    "alter role rowlease_lock drop member rowlease_reader": (
        "member rowlease_reader of rowlease_lock", "", None,
    ),
    "alter role rowlease_lock add member rowlease_more": (
        "member rowlease_more of rowlease_lock", None, "",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with sqlserver.server() as dsn, pytest.MonkeyPatch.context() as patch:
        with closing(sqlserver.connect(dsn)) as connection:
            if sqlserver.is_babelfish(connection):
                kept_by_babelfish(patch)
        yield dsn


@pytest.fixture(scope="module")
def fresh(server: str) -> Iterator[str]:
    """The DSN of a fresh database, which no test changes."""
    with sqlserver.database(server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def changed(server: str) -> Iterator[dict[str, Difference]]:
    """The differences of a database with all CHANGES, by their objects in small letters."""
    with sqlserver.database(server) as dsn, closing(sqlserver.connect(dsn)) as connection:
        connection.execute("create role rowlease_more")
        for change in CHANGES:
            connection.execute(change)
        yield {one.object.lower(): one for one in engine_of(dsn).schema_differences()}


def test_a_fresh_database_does_not_differ_but_for_the_tests_clock(fresh: str) -> None:
    (clock,) = engine_of(fresh).schema_differences()
    assert (clock.object, clock.advice) == (CLOCK, REINSTALL)


@pytest.mark.parametrize("change", CHANGES)
def test_the_check_names_every_kind_of_difference(
    change: str, changed: dict[str, Difference]
) -> None:
    name, wanted, found = CHANGES[change]
    one = changed[name.lower()]
    for part, definition in ((wanted, one.expected), (found, one.found)):
        assert (part is None) == (definition is None)
        assert part is None or part.lower() in (definition or "").lower()


def test_nothing_else_differs(changed: dict[str, Difference]) -> None:
    named = {CLOCK, *(name.lower() for name, _, _ in CHANGES.values())}
    others = {
        name
        for name in changed.keys() - named
        # Of what was made or dropped as a whole.
        if not re.match(r"column rowlease_internal.more|grant .*\.(requests|fill_request) ", name)
    }
    assert not others


def test_migrate_puts_routines_in_place_again_after_the_row_was_deleted(server: str) -> None:
    with sqlserver.database(server) as dsn, closing(sqlserver.connect(dsn)) as connection:
        for change, (name, _, _) in CHANGES.items():
            if name.startswith(("routine", "view", "trigger")):
                connection.execute(change)
        connection.execute("delete from rowlease.SchemaInfo")
        sqlserver.apply(dsn)
        assert [one.object for one in engine_of(dsn).schema_differences()] == [CLOCK]


def test_the_command_prints_each_difference_and_exits_with_1(fresh: str) -> None:
    done = CliRunner().invoke(migrate, ["--check", "--dsn", fresh])
    assert done.exit_code == 1
    first, last = done.output.splitlines()
    assert re.fullmatch(rf"changed: {CLOCK}: fingerprint \w+; {re.escape(REINSTALL)}", first)
    assert last.endswith(" 1 difference from this release")


def test_a_database_of_a_newer_release_is_not_compared(server: str) -> None:
    with sqlserver.database(server) as dsn:
        with closing(sqlserver.connect(dsn)) as connection:
            connection.execute("update rowlease.alembic_version set version_num = '9999'")
        with pytest.raises(SchemaMismatch, match="migrated by a newer release"):
            engine_of(dsn).schema_differences()


def test_a_user_who_does_not_see_all_definitions_learns_what_to_grant(
    fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "sees_all", lambda connection: False)
    with pytest.raises(AccessDenied, match="grant it VIEW DEFINITION"):
        engine_of(fresh).schema_differences()


# -- Babelfish -----------------------------------------------------------------------------------

#: Views and columns that it lacks or fails to read, and what is read instead.
READ_SO = (
    ("k.definition as computed, k.is_persisted", "null as computed, null as is_persisted"),
    (r"left join sys.computed_columns as k\s.*?column_id\n", ""),
    (", k.definition,", ", case when k.name like '%[_]counts' then 'a' else k.definition end"
     " as definition,"),
)  # fmt: skip
#: What it does not keep of a definition.
NOT_KEPT = (
    r" where .*", r" without page locks", r"lock escalation disable", r" collate \w+",
    r" default .*", r"(non)?clustered ", r" 00:00:00",
)  # fmt: skip
#: Objects of which it keeps nothing comparable.
UNKNOWN = r"grant|sequence|constraint \S+_counts$|column rowlease.load.rowspersecond"


def kept_by_babelfish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what Babelfish keeps: names in small letters, no options, no filters, no grants.

    It appends a hash to the names of indexes, and gets the scripts as `sqlserver.rewritten`.
    """
    read, expected = catalogue.read, catalogue.expected

    def respoken() -> dict[str, Any]:
        found = {}
        for query, described in catalogue.DESCRIBED.items():
            for pattern, instead in READ_SO:
                query = re.sub(pattern, instead, query, flags=re.DOTALL)
            found[query] = described
        return found

    def files(engine: str) -> list[Routine]:
        return [replace(one, body=sqlserver.in_its_words(one.body)) for one in all_files(engine)]

    def kept(definitions: dict[str, str]) -> dict[str, str]:
        return {
            name.lower(): re.sub("|".join(NOT_KEPT), "", definition.lower()).strip()
            for name, definition in definitions.items()
            if not re.match(UNKNOWN, name.lower())
        }

    monkeypatch.setattr(catalogue, "DESCRIBED", respoken())
    monkeypatch.setattr(catalogue, "all_files", files)
    monkeypatch.setattr(catalogue, "sees_all", lambda connection: True)
    monkeypatch.setattr(catalogue, "expected", lambda connection: kept(expected(connection)))
    monkeypatch.setattr(
        catalogue,
        "read",
        lambda connection: kept({unhashed(name): one for name, one in read(connection).items()}),
    )


def unhashed(name: str) -> str:
    """The name of an index: Babelfish appends the table's name, cuts it, and appends a hash."""
    match = re.fullmatch(r"(index \w+\.(\w+)\.)(\w+)[0-9a-f]{32}", name)
    if match is None:
        return name
    before, table, cut = match.groups()
    names = (key.split(".")[-1] for key in read_catalogue("sqlserver") if key.startswith("index"))
    return before + next(one for one in names if f"{one}{table}".startswith(cut))
