"""A role attacks the routines that it may call: with objects of its own in their way, and by views.

A trap notes who falls into it. Whatever runs with the owner's rights, or in the session of another
user, must fall into none: the trap could do there whatever that user may do.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql as names

from rowlease.model import NewRequest
from rowlease.store import open_store
from tests.conftest import in_database, scratch_database
from tests.fuzz.routines import SURFACE
from tests.fuzz.values import Draw, fill
from tests.migrations.security_page import rights
from tests.migrations.test_roles import ALLOWED

#: Functions that routines call by a bare name, and their traps: a name in a temporary schema or in
#: one of the search path comes before that of pg_catalog if nothing pins the path.
CALLED = {
    "clock_timestamp": ("", "timestamptz"),
    "now": ("", "timestamptz"),
    "random": ("", "double precision"),
    "cardinality": ("anyarray", "integer"),
    "floor": ("double precision", "double precision"),
    "format": ("text", "text"),
    "octet_length": ("text", "integer"),
    "json_typeof": ("json", "text"),
    "to_json": ("text", "json"),
    "pg_notify": ("text, text", "void"),
    "num_nonnulls": ("variadic text[]", "integer"),
}
#: Casts and comparisons, which routines use without a name.
OPERATORS = {
    "=": ("text", "text", "boolean"),
    "<>": ("text", "text", "boolean"),
    "||": ("text", "text", "text"),
    ">": ("bigint", "bigint", "boolean"),
    "->>": ("json", "text", "text"),
}
#: Inputs of each role.
CALLS = 150


def trap(schema: str) -> str:
    """Traps in a schema, each of which notes the user whose rights it got."""
    made = [
        f"create function {schema}.spy() returns text language plpgsql as $$ begin"
        f" insert into {schema}.caught values (current_user); return null; end $$"
    ]
    for name, (takes, gives) in CALLED.items():
        made.append(
            f"create function {schema}.{name}({takes}) returns {gives} language plpgsql as"
            f" $$ begin perform {schema}.spy(); return{'' if gives == 'void' else ' null'}; end $$"
        )
    for number, (sign, (left, right, gives)) in enumerate(OPERATORS.items()):
        made.append(
            f"create function {schema}.sign{number}({left}, {right}) returns {gives}"
            f" language plpgsql as $$ begin perform {schema}.spy(); return null; end $$"
        )
        made.append(
            f"create operator {schema}.{sign} (function = {schema}.sign{number},"
            f" leftarg = {left}, rightarg = {right})"
        )
    return "; ".join(made)


class Attack:
    """An attacker in a database, as one who may log in and has one of the roles."""

    def __init__(self, dsn: str, role: str) -> None:
        self.name = f"mallory_{secrets.token_hex(4)}"
        self.connection = psycopg.connect(dsn, autocommit=True)
        run = self.connection.execute
        run(f"create role {self.name}; grant {role} to {self.name}")
        run(f"create schema {self.name} authorization {self.name}")
        run(f"create table {self.name}.caught (by text)")
        run(f"grant usage on schema {self.name} to public")
        run(f"grant insert on {self.name}.caught to public")
        run(f"set session authorization {self.name}")
        run(trap(self.name))
        # Tables of the same names, with the same columns or with none, and views with a trap.
        for table in ("queue", "queue_settings", "worker", "load", "schedule", "batch", "gate"):
            run(f"create temp table {table} (x text)")
        run(f"create temp view requests as select {self.name}.spy() as request_id")
        run(trap_in_pg_temp(self.name))
        run(f"set search_path = {self.name}, pg_temp, pg_catalog")

    def caught(self) -> set[str]:
        self.connection.execute("reset session authorization")
        found = self.connection.execute(
            names.SQL("select distinct by from {}.caught").format(names.Identifier(self.name))
        )
        return {by for (by,) in found}


def trap_in_pg_temp(schema: str) -> str:
    return "; ".join(
        f"create function pg_temp.{name}({takes}) returns {gives} language plpgsql as"
        f" $$ begin perform {schema}.spy(); return{'' if gives == 'void' else ' null'}; end $$"
        for name, (takes, gives) in CALLED.items()
    )


@pytest.fixture
def target(server_dsn: str, template: str) -> Iterator[str]:
    """A database with requests, schedules and loads, whose roles are gone afterwards."""
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        fill(dsn)
        yield dsn
        with psycopg.connect(dsn, autocommit=True) as admin:
            made = admin.execute("select rolname from pg_roles where rolname like 'mallory\\_%'")
            for (role,) in made.fetchall():
                admin.execute(f"drop owned by {role} cascade; drop role {role}".encode())


@pytest.mark.parametrize("role", ALLOWED)
def test_nothing_of_a_role_runs_with_the_owners_rights(role: str, target: str) -> None:
    attack = Attack(target, role)
    with closing(attack.connection):
        for statement in ALLOWED[role]:
            attack.connection.execute(statement.encode())
        draw = Draw(role)
        for _ in range(CALLS):
            call = SURFACE.draw(draw)
            try:
                attack.connection.execute(*call.statement())
            except psycopg.Error:
                continue  # it may not call this one, or the input is bad
        assert attack.caught() <= {attack.name}


def test_a_trap_catches_a_routine_whose_search_path_is_not_pinned(target: str) -> None:
    with psycopg.connect(target, autocommit=True) as admin:
        for routine in ("enqueue", "depth"):
            admin.execute(f"alter function rowlease.{routine} reset search_path")
    attack = Attack(target, "rowlease_producer")
    with closing(attack.connection):
        attack.connection.execute("select * from rowlease.enqueue('default', 'x')")
        assert "rowlease_owner" in attack.caught()


def test_a_producer_writes_through_views_what_it_may_say_and_no_more(target: str) -> None:
    """Rows that a view would take, but that are no business of a producer."""
    attack = Attack(target, "rowlease_producer")
    with closing(attack.connection):
        columns = {
            "request_id": "1", "status": "'Processing'", "locked_by": "'me'", "lock_token": "1",
            "num_attempts": "-5", "result": "'{}'", "load_id": "'load 1'", "batch_id": "'batch 1'",
            "requested_time": "'epoch'", "completion_time": "'epoch'", "max_attempts": "1000000000",
            "cancel_requested": "true", "returned": "true", "group_blocked": "true",
        }  # fmt: skip
        for column, value in columns.items():
            with pytest.raises(
                (psycopg.errors.UndefinedColumn, psycopg.errors.InsufficientPrivilege)
            ):
                attack.connection.execute(
                    f"insert into rowlease.inbox (kind, {column}) values ('x', {value})".encode()
                )
        for statement in (
            "update rowlease.inbox set kind = 'y'",
            "delete from rowlease.inbox",
            "update rowlease.load_inbox set kind = 'y'",
            "insert into rowlease.requests (request_id) values (1)",
        ):
            with pytest.raises(psycopg.Error):
                attack.connection.execute(statement.encode())
        assert attack.connection.execute("select * from rowlease.inbox").fetchall() == []


def test_no_text_of_a_producer_runs_in_the_session_of_another(target: str) -> None:
    """As the names of queues, kinds, keys and groups that others' routines put into statements."""
    attack = Attack(target, "rowlease_producer")
    text = f"x'; select {attack.name}.spy(); --"
    with closing(attack.connection):
        for name in (text, f'"; select {attack.name}.spy(); --', f"$$; select {attack.name}.spy()"):
            attack.connection.execute(
                "insert into rowlease.inbox (kind, dedup_key, group_key) values (%s, %s, %s)",
                (name, name, name),
            )
        with closing(open_store(target)) as store:
            store.configure_queue(text)
            store.enqueue_many(text, [NewRequest(kind=text, dedup_key=text, group_key=text)])
            for leased in store.dequeue("w", [text, "default"], 20).requests:
                store.explain(leased.request_id)
            store.maintain()
            store.recount()
            store.operate("purge", queue=text, dry_run=True)
            store.list_kinds()
        assert attack.caught() == set()


def test_all_that_takes_rows_of_a_role_is_attacked() -> None:
    writable = {
        name for tables in rights().values() for name, may in tables.items() if "insert" in may
    }
    assert writable == {"inbox", "load_inbox", "lane"}
