"""What `rowlease migrate --check` compares on SQL Server: rows as its catalog views have them.

The spellings of expressions are those of sys.check_constraints, sys.indexes (filter_definition),
sys.default_constraints and sys.computed_columns, as SQL Server's own scripts show them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rowlease.store.differences import RECREATED, Difference, differences, read_catalogue
from rowlease.store.postgresql.catalogue import plain
from rowlease.store.sqlserver import catalogue
from rowlease.store.sqlserver.catalogue import comparisons, module

SCRIPT = """\
-- wave: greet; create or alter nothing.
-- params:   none
create or alter procedure rowlease.wave @p_name nvarchar(100)
as
set nocount on;
select N'or alter' as word;
"""

# -- PostgreSQL ----------------------------------------------------------------------------------


def test_every_version_of_postgresql_writes_the_same_definition() -> None:
    """Version 15 writes the table before a column, and version 18 quotes the name json."""
    assert plain("SELECT queue.kind,\n NULL::json AS json") == "SELECT kind, NULL::json AS json"
    assert plain('SELECT kind,\n NULL::json AS "json"') == "SELECT kind, NULL::json AS json"
    assert plain("autovacuum_analyze_scale_factor=0.1") == "autovacuum_analyze_scale_factor=0.1"


# -- expressions ---------------------------------------------------------------------------------

#: An expression of our scripts, as SQL Server spells it, and as another T-SQL engine does.
SPELT = {
    "status in ('Scheduled', 'Pending')": (
        "([Status]='Pending' OR [Status]='Scheduled')",
        "((status IN ('Scheduled', 'Pending'))) ",
    ),
    "Priority between 0 and 255": (
        "([Priority]>=(0) AND [Priority]<=(255))",
        "(((priority >= 0) AND (priority <= 255)))",
    ),
    "QueueName <> ''": ("([QueueName]<>'')", "((queuename <> ''))"),
    "Kind != N'a''b (c)'": ("([Kind]<>N'a''b (c)')",),
    "coalesce(RetryBaseMs, 0) >= 0": (
        "(coalesce([RetryBaseMs],(0))>=(0))",
        "(case when [RetryBaseMs] IS NOT NULL then [RetryBaseMs] else (0) end>=(0))",
    ),
    "(Status = 'Failed' and LastError is not null)\n"
    " or (Status <> 'Failed' and LastError is null)": (
        "([Status]='Failed' AND [LastError] IS NOT NULL OR [Status]<>'Failed'"
        " AND [LastError] IS NULL)",
        "((((status = 'Failed') AND (lasterror IS NOT NULL)) OR ((status <> 'Failed')"
        " AND (lasterror IS NULL))))",
    ),
    "DedupKey is not null and Status <> 'Failed'": (
        "([DedupKey] IS NOT NULL AND [Status]<>'Failed')",
    ),
    "Cron like '_% _% _% _% _%'": ("([Cron] like '_% _% _% _% _%')",),
    "cast(NumStaged * 1000.0 / nullif(datediff_big(millisecond, StartedTime, ReportedTime), 0)"
    " as float)": (
        "(CONVERT([float],([NumStaged]*(1000.0))/"
        "nullif(datediff_big(millisecond,[StartedTime],[ReportedTime]),(0))))",
    ),
    "0": ("((0))",),
    "'strict'": ("('strict')", "(N'strict')"),
}  # fmt: skip


@pytest.mark.parametrize("written", SPELT)
def test_an_expression_is_the_same_however_a_server_spells_it(written: str) -> None:
    for spelt in SPELT[written]:
        assert comparisons(spelt) == comparisons(written)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a in (1, 2)", "a in (1, 3)"),
        ("a between 0 and 255", "a between 0 and 256"),
        ("a between 0 and 255", "a between 1 and 255"),
        ("a >= 1", "a > 1"),
        ("a = 'x'", "a <> 'x'"),
        ("a = 'x'", "a = 'X'"),
        ("a = 'x y'", "a = 'x  y'"),
        ("a is null", "a is not null"),
        ("a = 1 and b = 2", "a = 1"),
        ("a = 1", "b = 1"),
        ("coalesce(a, 0) >= 0", "coalesce(a, 1) >= 0"),
        ("cast(a as float)", "cast(a as int)"),
    ],
)
def test_expressions_that_compare_something_else_differ(one: str, other: str) -> None:
    assert comparisons(one) != comparisons(other)


# -- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "instead"),
    [
        ("create or alter procedure", "create   procedure"),  # CREATE OR ALTER, as it is kept
        ("create or alter procedure", "CREATE procedure"),  # ALTER, as it is kept
        ("create or alter procedure", "alter procedure"),
        ("\n", "\r\n"),  # sqlcmd on Windows
        ("-- wave: greet; create or alter nothing.\n-- params:   none\n", ""),
    ],
)
def test_a_routine_is_the_same_however_it_was_installed(kept: str, instead: str) -> None:
    assert kept in SCRIPT
    assert module(SCRIPT.replace(kept, instead)) == module(SCRIPT)


@pytest.mark.parametrize(
    ("kept", "instead"),
    [("nocount on", "nocount off"), ("nvarchar(100)", "nvarchar(200)"), ("or alter'", "alter'")],
)
def test_a_routine_whose_text_was_edited_differs(kept: str, instead: str) -> None:
    assert module(SCRIPT.replace(kept, instead)) != module(SCRIPT)


# -- rows ----------------------------------------------------------------------------------------


def row(**columns: Any) -> SimpleNamespace:
    return SimpleNamespace(**columns)


OBJECT = row(
    name="rowlease.Queue", type="U ", type_desc="USER_TABLE", owner=None,
    lock_escalation_desc="DISABLE", definition=None, uses_quoted_identifier=None,
    uses_ansi_nulls=None, is_disabled=None,
)  # fmt: skip
TRIGGER = row(
    name="rowlease.fill_request", type="TR", type_desc="SQL_TRIGGER", owner=None,
    lock_escalation_desc=None, definition=SCRIPT, uses_quoted_identifier=True,
    uses_ansi_nulls=True, is_disabled=False,
)  # fmt: skip
COLUMN = row(
    name="rowlease.Queue.LockToken", type="bigint", max_length=8, precision=19, scale=0,
    collation_name=None, is_nullable=False, is_identity=False, default="((0))", computed=None,
    is_persisted=None,
)  # fmt: skip
TEXT = row(
    name="rowlease.Queue.Kind", type="nvarchar", max_length=400, precision=0, scale=0,
    collation_name="Latin1_General_100_BIN2", is_nullable=False, is_identity=False, default=None,
    computed=None, is_persisted=None,
)  # fmt: skip
TIME = row(
    name="rowlease.Queue.DueTime", type="datetime2", max_length=8, precision=26, scale=6,
    collation_name=None, is_nullable=False, is_identity=False, default=None, computed=None,
    is_persisted=None,
)  # fmt: skip
COMPUTED = row(
    name="rowlease.Load.RowsPerSecond", type="float", max_length=8, precision=53, scale=0,
    collation_name=None, is_nullable=True, is_identity=False, default=None, is_persisted=False,
    computed="(CONVERT([float],([NumStaged]*(1000.0))/"
    "nullif(datediff_big(millisecond,[StartedTime],[ReportedTime]),(0))))",
)  # fmt: skip
CHECK = row(
    name="rowlease.Queue.queue_status", is_disabled=False, is_not_trusted=False,
    definition="([Status]='Failed' OR [Status]='Processing' OR [Status]='Pending'"
    " OR [Status]='Scheduled')",
)  # fmt: skip
INDEX = row(
    name="rowlease.Queue.queue_pending", type_desc="NONCLUSTERED", is_primary_key=False,
    is_unique_constraint=False, is_unique=False, allow_page_locks=False, allow_row_locks=True,
    filter_definition="([Status]='Pending' AND [GroupBlocked]=(0))", ignore_dup_key=False,
    is_disabled=False, keys="QueueName, Priority desc, DueTime, RequestId",
    included="GroupBlocked, GroupKey, Status",
)  # fmt: skip
KEY = row(
    name="rowlease.Queue.queue_pkey", type_desc="CLUSTERED", is_primary_key=True,
    is_unique_constraint=False, is_unique=True, allow_page_locks=False, allow_row_locks=True,
    filter_definition=None, ignore_dup_key=False, is_disabled=False, keys="RequestId",
    included=None,
)  # fmt: skip
GRANT = row(
    permission="execute", state="G", grantee="rowlease_producer", name="rowlease.enqueue",
    column=None,
)  # fmt: skip
SCHEMA = row(name="rowlease_internal", owner=None)

Described = Callable[[Any], tuple[str, str]]
#: Rows of a fresh database, and what is then to be seen of each column that differs.
FRESH: list[tuple[Described, SimpleNamespace, dict[str, Any]]] = [
    (catalogue._schema, SCHEMA, {"owner": "bob"}),
    (catalogue._object, OBJECT, {"owner": "bob", "lock_escalation_desc": "TABLE"}),
    (
        catalogue._column,
        COLUMN,
        {"type": "int", "is_nullable": True, "is_identity": True, "default": "((1))"},
    ),
    (
        catalogue._column,
        TEXT,
        {
            "type": "varchar", "max_length": 398, "collation_name": "Latin1_General_CI_AS",
            "is_nullable": True, "default": "('a')",
        },
    ),
    (catalogue._column, TIME, {"scale": 7, "type": "datetimeoffset"}),
    (catalogue._column, COMPUTED, {"is_persisted": True, "computed": "([NumStaged]*(2))"}),
    (
        catalogue._check,
        CHECK,
        {"definition": "([Status]='Failed')", "is_disabled": True, "is_not_trusted": True},
    ),
    (
        catalogue._index,
        INDEX,
        {
            "type_desc": "NONCLUSTERED COLUMNSTORE", "is_unique": True, "allow_page_locks": True,
            "allow_row_locks": False, "filter_definition": "([Status]='Pending')",
            "ignore_dup_key": True, "is_disabled": True, "keys": "QueueName, Priority, DueTime",
            "included": None,
        },
    ),
    (catalogue._index, KEY, {"type_desc": "NONCLUSTERED", "keys": "RequestId desc"}),
    (catalogue._grant, GRANT, {"state": "W"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("described", "fresh"), [pytest.param(one, given, id=given.name) for one, given, _ in FRESH]
)
def test_a_row_of_a_fresh_database_is_what_the_scripts_declare(
    described: Described, fresh: SimpleNamespace
) -> None:
    name, definition = described(fresh)
    assert read_catalogue("sqlserver")[name] == definition


@pytest.mark.parametrize(
    ("described", "fresh", "column", "value"),
    [
        pytest.param(one, given, column, value, id=f"{given.name}-{column}")
        for one, given, changes in [
            *FRESH,
            (
                catalogue._object,
                TRIGGER,
                {
                    "definition": "create trigger x", "uses_quoted_identifier": False,
                    "uses_ansi_nulls": False, "is_disabled": True, "owner": "bob",
                },
            ),
        ]
        for column, value in changes.items()
    ],
)  # fmt: skip
def test_each_column_of_a_row_makes_a_difference(
    described: Described, fresh: SimpleNamespace, column: str, value: object
) -> None:
    name, definition = described(fresh)
    assert described(row(**{**vars(fresh), column: value})) not in [(name, definition)]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"state": "D"}, "deny"),
        ({"state": "R"}, "revoke"),
        ({"column": "Kind"}, "grant"),
        ({"grantee": "public"}, "grant"),
    ],
)
def test_a_right_that_was_granted_besides_has_a_name_of_its_own(
    changes: dict[str, str], kind: str
) -> None:
    name, _ = catalogue._grant(row(**{**vars(GRANT), **changes}))
    assert name.startswith(kind)
    assert name not in read_catalogue("sqlserver")


def test_what_is_not_known_here_keeps_the_servers_name() -> None:
    synonym = row(**{**vars(OBJECT), "type": "SN", "type_desc": "SYNONYM"})
    assert catalogue._object(synonym)[0] == "synonym rowlease.Queue"


# -- what to do ----------------------------------------------------------------------------------


def test_each_difference_has_its_advice() -> None:
    reinstall = "delete the row of rowlease.SchemaInfo and run `rowlease migrate`"
    wanted = {
        "routine a": "x",
        "grant b": "",
        "column c": "int",
        "member d": "",
        "table e": "f",
        "index i": "x",
    }
    wanted |= {"trigger j": "x", "trigger k": "x"}
    found = {"routine a": "y", "column c": "text", "table e": "", "deny g": "", "index h": "i"}
    found |= {"trigger k": "y"}
    assert differences(wanted, found, "rowlease.SchemaInfo", ["index i"]) == [
        Difference("column c", "int", "text", "change it to what the migrations make: int"),
        Difference("deny g", None, "", "revoke it"),
        Difference("grant b", "", None, reinstall),
        Difference("index h", None, "i", "drop it, unless it is yours"),
        Difference("index i", "x", None, RECREATED),
        Difference("member d", "", None, "create it"),
        Difference("routine a", "x", "y", reinstall),
        Difference("table e", "f", "", "change it to what the migrations make: f"),
        Difference("trigger j", "x", None, reinstall),
        Difference("trigger k", "x", "y", f"drop it, {reinstall}"),
    ]
    assert differences(wanted, wanted, "rowlease.SchemaInfo") == []
