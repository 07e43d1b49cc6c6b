"""What SECURITY.md says of each role and table, compared with the grants and the routines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowlease.store.routines import load_routines, packaged_folder
from rowlease.store.sqlserver.descriptions import pascal_case
from tests.migrations.catalogue import DAILY
from tests.migrations.security_page import CALLS, ROLES, rights, words
from tests.tsql.catalogue import declared
from tests.unit.test_routines import called, code

Sql = Callable[..., list[tuple[Any, ...]]]
#: What SQL Server does not have.
POSTGRESQL_ONLY = {"gate", "queue_history_default"}
RIGHTS = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
ROUTINES = load_routines("postgresql")
WRITTEN = re.compile(r"(?:insert\s+into|update|delete\s+from|truncate)\s+rowlease\.(\w+)")
#: The triggers of tables, for those who may insert into them.
TRIGGERED = {
    "inbox": {"fill_request", "count_request"},
    "load_inbox": {"end_part"},
    "lane": {"end_part"},
}


def granted(text: str) -> Iterator[tuple[str, str]]:
    """Each role of grants.sql with each routine that it may call."""
    for routines, roles in re.findall(
        r"grant execute on function (.*?)\bto\b(.*?);", text, re.DOTALL
    ):
        for role in re.findall(r"\w+", roles):
            for routine in re.findall(r"rowlease\.(\w+)", routines):
                yield role, routine


def within(routine: str, seen: set[str]) -> set[str]:
    """A routine and all that it calls."""
    if routine not in seen:
        seen.add(routine)
        for each in called(ROUTINES[routine]):
            within(each, seen)
    return seen


def written_by(role: str) -> set[str]:
    """The tables whose rows the routines of a role add, change or delete."""
    grants = (packaged_folder("sql") / "postgresql" / "grants.sql").read_text(encoding="utf-8")
    mine = {routine for each, routine in granted(grants) if each == role}
    for table, may in rights()[role].items():
        if "insert" in may:
            mine |= TRIGGERED[table]
    seen = set[str]()
    for routine in mine:
        within(routine, seen)
    return {table for routine in seen for table in WRITTEN.findall(code(ROUTINES[routine]))}


@pytest.mark.parametrize("role", ROLES)
def test_the_page_has_the_rights_on_each_table_of_postgresql(role: str, sql: Sql) -> None:
    """Also a right on some columns alone."""
    found = sql(
        "select c.relname, array("
        "   select r.name from unnest(%s::text[]) as r(name)"
        "    where has_table_privilege(%s, c.oid, r.name)"
        "       or r.name <> all('{delete,truncate,trigger}')"
        "          and has_any_column_privilege(%s, c.oid, r.name))"
        "  from pg_class c where c.relnamespace = 'rowlease'::regnamespace"
        "   and c.relkind in ('r', 'p', 'v') and c.relname !~ %s",
        [list(RIGHTS), role, role, DAILY],
    )
    assert {name: set(may) for name, may in found} == rights()[role]


def test_public_has_no_right_on_any_table(sql: Sql) -> None:
    assert not sql(
        "select c.relname from pg_class c, unnest(%s::text[]) r"
        " where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('r', 'p', 'v')"
        "   and has_table_privilege('public', c.oid, r)",
        [list(RIGHTS)],
    )


@pytest.mark.parametrize("role", ROLES)
def test_the_page_has_the_rights_on_each_table_of_sql_server(role: str) -> None:
    grants = [name.split() for name in declared() if name.startswith("grant ")]
    expected = {
        ("alembic_version" if name == "alembic_version" else pascal_case(name), right)
        for name, may in rights()[role].items()
        for right in may
        if name not in POSTGRESQL_ONLY
    }
    found = {
        (on.removeprefix("rowlease."), right)
        for _, right, _, on, _, to in grants
        if to == role and right != "execute"
    }
    assert found == expected


@pytest.mark.parametrize("role", ROLES)
def test_the_page_has_the_tables_that_the_calls_of_a_role_change(role: str) -> None:
    assert written_by(role) == {
        name for (name, each), cell in words().items() if each == role and CALLS in cell
    }


def test_maintain_alone_deletes_rows_of_the_audit() -> None:
    deleting = {
        name for name, each in ROUTINES.items() if "delete from rowlease.operation " in code(each)
    }
    assert deleting == {"sweep_operations"}
    assert {name for name, each in ROUTINES.items() if deleting & called(each)} == {"maintain_step"}
