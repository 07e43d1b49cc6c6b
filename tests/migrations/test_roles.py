"""The rights of the five roles, and of PUBLIC, which has none.

The lists below are the promise; sql/postgresql/grants.sql is how it is kept. SECURITY.md has the
rights on tables; test_security_page.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

Sql = Callable[..., list[tuple[Any, ...]]]

EVERYONE = {"schema_version"}
PRODUCER = EVERYONE | {
    "enqueue", "enqueue_many", "begin_load", "report_load", "promote",
    "end_run", "listen",
}  # fmt: skip
WORKER = EVERYONE | {
    "dequeue", "complete", "complete_and_enqueue", "fail", "abandon", "expire", "snooze",
    "decline", "disown", "exchange", "renew", "maintain", "finish_batches", "worker_heartbeat",
    "set_dead_letter_tasks",
    "remove_worker", "depth",
    "listen", "announce_idle", "put_schedule", "claim_schedules", "fire_schedule",
    "report_progress", "list_queues", "show_queue", "list_workers", "list_shared_kinds",
    "advance_ids",
}  # fmt: skip
READER = EVERYONE | {
    "now", "depth", "explain", "diagnose", "diagnose_server", "diagnose_sessions",
    "list_schedules", "list_queues", "show_queue", "list_workers", "get_request", "find_requests",
    "listen_finished", "list_ready", "list_leases", "list_dead_letters", "list_loads",
    "list_streams", "measure_waits", "list_days", "list_kinds", "list_operations", "list_batches",
    "list_shared_kinds", "finish_batches", "demand",
    "metrics", "metrics_server",
}  # fmt: skip
OPERATOR = READER | {
    "operate", "recount", "forget_stream", "pause", "resume", "configure_queue",
    "delete_queue",
    "maintain", "advance_ids", "enqueue_by_operator",
    "discard_load", "put_schedule", "fire_schedule", "pause_schedule", "resume_schedule",
    "remove_schedule",
}  # fmt: skip

#: What each role may call; the owner may call everything.
ROUTINES = {
    "public": set[str](),
    "rowlease_producer": PRODUCER,
    "rowlease_worker": WORKER,
    "rowlease_reader": READER,
    "rowlease_operator": OPERATOR,
}


@pytest.mark.parametrize("role", ROUTINES)
def test_a_role_may_call_what_its_work_needs_and_nothing_else(role: str, sql: Sql) -> None:
    found = sql(
        "select p.proname, has_function_privilege(%s, p.oid, 'execute') from pg_proc p"
        " where starts_with(p.pronamespace::regnamespace::text, 'rowlease')",
        [role],
    )
    assert {name for name, may in found if may} == ROUTINES[role]


#: A producer's COPY fills in the other columns of the lane; a request id is not its choice.
SINGLE_COLUMNS = {"rowlease_producer": [("lane",)]}
SEQUENCES = {"rowlease_producer": [("queue_request_id_seq", True, False, False)]}


@pytest.mark.parametrize("role", ROUTINES)
def test_no_role_has_a_right_on_a_single_column_or_a_sequence(role: str, sql: Sql) -> None:
    columns = sql(
        "select distinct c.relname from pg_class c, unnest(%s::text[]) r"
        " where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('r', 'p', 'v')"
        "   and has_any_column_privilege(%s, c.oid, r) and not has_table_privilege(%s, c.oid, r)",
        [["select", "insert", "update", "references"], role, role],
    )
    assert columns == SINGLE_COLUMNS.get(role, [])
    sequences = sql(
        "select * from (select c.relname,"
        " case when c.relkind = 'S' then has_sequence_privilege(%(r)s, c.oid, 'usage') end as u,"
        " case when c.relkind = 'S' then has_sequence_privilege(%(r)s, c.oid, 'select') end as s,"
        " case when c.relkind = 'S' then has_sequence_privilege(%(r)s, c.oid, 'update') end as w"
        " from pg_class c where c.relnamespace = 'rowlease'::regnamespace) f where u or s or w",
        {"r": role},
    )
    assert sequences == SEQUENCES.get(role, [])


@pytest.mark.parametrize("role", ROUTINES)
def test_only_the_roles_enter_the_schema_and_only_its_owner_makes_things_there(
    role: str, sql: Sql
) -> None:
    rights = sql(
        "select n.nspname, has_schema_privilege(%s, n.oid, 'usage'),"
        "       has_schema_privilege(%s, n.oid, 'create')"
        "  from pg_namespace n where starts_with(n.nspname, 'rowlease') order by 1",
        [role, role],
    )
    assert rights == [("rowlease", role != "public", False), ("rowlease_internal", False, False)]


def test_everything_belongs_to_the_owner(sql: Sql) -> None:
    owners = sql(
        "select nspname, nspowner::regrole::text from pg_namespace"
        "  where starts_with(nspname, 'rowlease')"
        " union all select relname, relowner::regrole::text from pg_class"
        "  where relnamespace = 'rowlease'::regnamespace"
        " union all select proname, proowner::regrole::text from pg_proc"
        "  where starts_with(pronamespace::regnamespace::text, 'rowlease')"
    )
    assert {owner for _, owner in owners} == {"rowlease_owner"}, owners


def test_the_roles_cannot_log_in_and_have_no_power_over_the_server(sql: Sql) -> None:
    roles = sql(
        "select rolname, rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolbypassrls"
        "       or rolreplication"
        "  from pg_roles where rolname like 'rowlease\\_%%' and rolname = any(%s) order by 1",
        [["rowlease_owner", *ROUTINES]],
    )
    assert roles == [
        ("rowlease_operator", False),
        ("rowlease_owner", False),
        ("rowlease_producer", False),
        ("rowlease_reader", False),
        ("rowlease_worker", False),
    ]


def test_routines_with_their_owners_rights_pin_their_search_path(sql: Sql) -> None:
    loose = sql(
        "select p.proname, p.proconfig from pg_proc p"
        " where starts_with(p.pronamespace::regnamespace::text, 'rowlease') and p.prosecdef"
        "   and not 'search_path=pg_catalog, pg_temp' = any(coalesce(p.proconfig, '{}'))"
    )
    assert not loose


def test_what_a_role_may_call_runs_with_the_owners_rights(sql: Sql) -> None:
    """The others would fail on the first table they touch."""
    weak = sql(
        "select p.proname from pg_proc p"
        " where starts_with(p.pronamespace::regnamespace::text, 'rowlease') and p.proname = any(%s)"
        "   and not p.prosecdef",
        [sorted(set().union(*ROUTINES.values()))],
    )
    no_table = {"listen", "listen_finished", "announce_idle", "now"}
    # A superuser sees more of other sessions than the owner.
    callers = {"diagnose_server", "diagnose_sessions", "metrics_server"}
    assert {name for (name,) in weak} == no_table | callers


# -- and in use --------------------------------------------------------------------------------

LEASED = "(select q.request_id, q.lock_token from rowlease.queue q where q.locked_by = 'w')"
ALLOWED = {
    "rowlease_producer": [
        "select * from rowlease.enqueue('default', 'x')",
        "insert into rowlease.inbox (kind, payload) values ('x', '{}')",
        "select * from rowlease.inbox",
        "select p.* from rowlease.begin_load('l', 'default', 'one') b,"
        " rowlease.promote('l', b.run_number, 0) p",
        "with load as materialized (select * from rowlease.begin_load('m', 'default', 'one'))"
        " insert into rowlease.lane (run_number, priority, part, kind, payload, ends_part)"
        " select run_number, 0, 0, 'x', '{}', true from load",
        "with load as materialized (select * from rowlease.begin_load('m', 'default', 'one'))"
        " insert into rowlease.load_inbox (run_number, priority, part, kind, payload, ends_part,"
        " due_time, dedup_key, group_key)"
        " select run_number, 0, 1, 'x', '{}', true, now(), 'k', 'g' from load",
        "select p.* from rowlease.begin_load('m', 'default', 'one') b,"
        " rowlease.promote('m', b.run_number, 2) p",
        "select * from rowlease.load_inbox",
        "select rowlease.schema_version()",
    ],
    "rowlease_worker": [
        "select * from rowlease.dequeue('w', '{default}', 1)",
        "select * from rowlease.complete('{1}', '{1}')",
        "select * from rowlease.fail('{1}', '{1}', '{oops}')",
        "select * from rowlease.abandon('{1}', '{1}')",
        "select * from rowlease.decline('{1}', '{1}', '{oops}')",
        "select * from rowlease.disown('w', '{default}', '{}', '{}')",
        "select * from rowlease.renew('{1}', '{1}')",
        "select rowlease.worker_heartbeat('w', 'host', 1, '1', '{default}', 1, 0)",
        "select rowlease.remove_worker('w')",
        "select rowlease.announce_idle('{default}', true)",
        "select rowlease.listen()",
        "select * from rowlease.maintain()",
        "select * from rowlease.depth()",
        "select * from rowlease.put_schedule('s', '0 3 * * *', 'x')",
        "select * from rowlease.claim_schedules('w')",
        "select * from rowlease.fire_schedule('s', 1, '{}', '9999-01-01')",
    ],
    "rowlease_operator": [
        "select * from rowlease.configure_queue('other')",
        "select * from rowlease.operate('cancel', '{\"ids\": [1]}')",
        "select * from rowlease.recount()",
        "select rowlease.pause('default')",
        "select rowlease.resume('default')",
        "select * from rowlease.put_schedule('s', '0 3 * * *', 'x')",
        "select * from rowlease.fire_schedule('s')",
        "select * from rowlease.pause_schedule('s')",
        "select * from rowlease.resume_schedule('s')",
        "select * from rowlease.remove_schedule('s')",
        "select * from rowlease.list_schedules()",
        "select * from rowlease.schedule",
        "select * from rowlease.requests",
    ],
    "rowlease_reader": [
        "select * from rowlease.requests",
        "select * from rowlease.queue",
        "select * from rowlease.depth()",
        "select * from rowlease.explain(1)",
        "select * from rowlease.get_request(1)",
        "select * from rowlease.find_requests()",
        "select rowlease.listen_finished()",
        "select * from rowlease.list_schedules()",
    ],
}
REFUSED = {
    "rowlease_producer": [
        "select * from rowlease.queue",
        "select * from rowlease.requests",
        "select * from rowlease.lane",
        "insert into rowlease.lane (run_number, request_id, priority, part, kind, payload)"
        " values (1, 1, 0, 0, 'x', '{}')",
        "insert into rowlease.lane_part values (1, 0, 0, 1, 1, 1)",
        "select setval('rowlease.queue_request_id_seq', 1)",
        "insert into rowlease.queue (queue_name) values ('default')",
        "delete from rowlease.inbox",
        "select * from rowlease.dequeue('w', '{default}', 1)",
        "select rowlease_internal.check_capacity('default', 1, 0, now())",
    ],
    "rowlease_worker": [
        "select * from rowlease.queue",
        "select * from rowlease.requests",
        "select * from rowlease.operation",
        "select * from rowlease.configure_queue('default')",
        "update rowlease.queue set locked_by = 'me'",
        "update rowlease.schedule set next_time = null",
        "select * from rowlease.remove_schedule('s')",
        "delete from rowlease.queue",
        "insert into rowlease.queue_history (request_id) values (1)",
        "select * from rowlease.enqueue('default', 'x')",
        "select * from rowlease.operate('cancel', '{\"ids\": [1]}')",
        "select rowlease_internal.break_expired('default', now(), '-infinity', 1)",
    ],
    "rowlease_operator": [
        "update rowlease.queue set priority = 9",
        "delete from rowlease.queue_history",
        "select * from rowlease.complete('{1}', '{1}')",
        "select * from rowlease.dequeue('w', '{default}', 1)",
        "select * from rowlease.enqueue('default', 'x')",
        "update rowlease.operation set actor = 'somebody else'",
        "delete from rowlease.operation",
    ],
    "rowlease_reader": [
        "select * from rowlease.enqueue('default', 'x')",
        "update rowlease.queue_settings set paused = true",
        "select * from rowlease.operate('cancel', '{\"ids\": [1]}')",
        "select * from rowlease.maintain()",
        "select * from rowlease.recount()",
        "select from rowlease.gate for update",
        "create table rowlease.mine ()",
    ],
}


@pytest.mark.parametrize("role", ALLOWED)
def test_a_role_does_its_work(role: str, sql: Sql) -> None:
    sql(f"set role {role}")
    for statement in ALLOWED[role]:
        sql(statement)


@pytest.mark.parametrize(
    ("role", "statement"),
    [(role, statement) for role, statements in REFUSED.items() for statement in statements],
)
def test_a_role_is_refused_what_others_do(role: str, statement: str, sql: Sql) -> None:
    sql(f"set role {role}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        sql(statement)
