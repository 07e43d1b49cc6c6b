"""sql/sqlserver, read by Microsoft's own grammar: it parses, and keeps the house's rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from rowlease.store.routines import load_routines, packaged_folder
from tests.tsql import lint, scriptdom

pytestmark = pytest.mark.skipif(
    scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there"
)

ROOT = Path(__file__).resolve().parents[2]
#: A procedure that keeps all the rules, to be broken in one place each.
GOOD = """\
-- claim_carefully: take what waits.
-- params:   p_limit int, p_found xml output
-- returns:  request_id bigint
-- errors:   RL001 a limit below 1
-- locks:    rows of queue, skipping locked ones
-- why:      a test.
create or alter procedure rowlease.claim_carefully @p_limit int, @p_found xml output
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
if @p_limit < 1
  throw 51001, N'limit must be 1 or more', 1;
declare @claimed table (RequestId bigint primary key);
declare @granted int;
begin transaction;
exec @granted = sys.sp_getapplock @Resource = N'claim', @LockMode = 'Exclusive',
                                  @LockOwner = 'Transaction', @LockTimeout = 0,
                                  @DbPrincipal = N'rowlease_lock';
with found as (
  select top (@p_limit) q.RequestId
    from rowlease.Queue as q
      with (forceseek (queue_pending (QueueName)), updlock, readpast, rowlock)
   where q.QueueName = N'a' and q.Status = 'Pending' and q.GroupBlocked = 0
)
insert into @claimed (RequestId) select f.RequestId from found as f;
update rowlease.Queue set LockToken = LockToken + 1
  from @claimed as c
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = c.RequestId
 where Queue.Status = 'Pending'
option (loop join, force order, maxdop 1);
delete h from rowlease.QueueHistory as h with (index (queue_history_completed), forceseek, rowlock)
 where h.CompletionTime < sysutcdatetime()
option (maxdop 1);
set @p_found = rowlease_internal.as_xml((
  select w.RequestId as id from @claimed as w for json path));
commit transaction;
select w.RequestId as request_id from @claimed as w;
"""
FROM_CLAUSE = """\
  from @claimed as c
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = c.RequestId
 where """
READ_COMMITTED = "set transaction isolation level read committed;\n"
COMMIT_AND_SELECT = """\
commit transaction;
select w.RequestId as request_id from @claimed as w;
"""
#: A text, its replacement, and the rule that must notice it.
BROKEN = {
    "half a statement": ("set LockToken = LockToken + 1", "set LockToken =", "grammar"),
    "two batches": ("commit transaction;\n", "commit transaction;\ngo\n", "one_batch"),
    "create alone": ("create or alter procedure", "create procedure", "one_batch"),
    "another name": ("rowlease.claim_carefully", "rowlease.greet", "named_as_its_file"),
    "another schema": ("rowlease.claim_carefully", "dbo.wave", "named_as_its_file"),
    "no nocount": ("set nocount on;\n", "", "begins_with_its_settings"),
    "no xact_abort": ("set xact_abort on;\n", "", "begins_with_its_settings"),
    "xact_abort off": (READ_COMMITTED, READ_COMMITTED + "set xact_abort off;\n",
                       "begins_with_its_settings"),
    "no isolation level": (READ_COMMITTED, "", "begins_with_its_settings"),
    "snapshot": ("level read committed", "level snapshot", "begins_with_its_settings"),
    "readpast alone": ("updlock, readpast, rowlock", "readpast, rowlock", "no_hint_that_lies"),
    "pages": ("updlock, readpast, rowlock", "updlock, readpast", "no_hint_that_lies"),
    "nolock": ("updlock, readpast, rowlock", "nolock", "no_hint_that_lies"),
    "tablock": ("updlock, readpast, rowlock", "tablock", "no_hint_that_lies"),
    "skipping unsaid": (", skipping locked ones", "", "readpast_is_said"),
    "updlock where nothing is claimed": ("update rowlease.Queue set",
                                         "update rowlease.Queue with (updlock, rowlock) set",
                                         "hints_on_the_queue_only_where_allowed"),
    "a table of the caller's": ("insert into @claimed (RequestId) select",
                                "insert into #claimed (RequestId) select",
                                "temporary_tables_are_its_own"),
    "json in xml as it is": ("= rowlease_internal.as_xml((", "= ((", "json_in_xml_is_escaped"),
    "waiting for a row": ("forceseek, rowlock, readpast", "forceseek, rowlock",
                          "found_rows_are_skipped"),
    "all rows of a load in one transaction": (
        "commit transaction;\n",
        "delete s from rowlease.Staging as s with (index (staging_run), forceseek)"
        " where s.RunNumber = 1 option (maxdop 1);\ncommit transaction;\n",
        "staged_rows_go_in_steps"),
    "any plan": ("forceseek (queue_pending (QueueName)), ", "", "seeks_are_pinned"),
    "any plan of the history": ("index (queue_history_completed), forceseek, ", "",
                                "seeks_are_pinned"),
    "an index of another table": ("index (queue_history_completed)", "index (queue_pkey)",
                                  "seeks_are_pinned"),
    "threads that lock in any order": ("()\noption (maxdop 1)", "()", "seeks_are_pinned"),
    "any plan of a change": ("index (queue_pkey), forceseek, ", "", "seeks_are_pinned"),
    "any index": ("index (queue_pkey), ", "", "seeks_are_pinned"),
    "any plan of a change without a from clause": (
        FROM_CLAUSE, " where RequestId in (select c.RequestId from @claimed as c)\n   and ",
        "seeks_are_pinned"),
    "a seek where none is taken": ("update rowlease.Queue set",
                                   "update rowlease.Queue with (forceseek) set",
                                   "seeks_are_pinned"),
    "columns where none are taken": ("index (queue_pkey), forceseek",
                                     "forceseek (queue_pkey (RequestId))", "seeks_are_pinned"),
    "an index that is not there": ("index (queue_pkey)", "index (queue_key)", "seeks_are_pinned"),
    "columns that do not lead": ("queue_pending (QueueName)", "queue_pending (Priority)",
                                 "seeks_are_pinned"),
    "rows that the index has not": (" and q.GroupBlocked = 0", "", "seeks_are_pinned"),
    "any join": ("loop join, ", "", "seeks_are_pinned"),
    "any order of a join": (", force order", "", "seeks_are_pinned"),
    "a text is run": ("commit transaction;\n", "exec (N'commit');commit transaction;\n",
                      "no_dynamic_sql"),
    "sp_executesql": ("commit transaction;\n",
                      "exec sys.sp_executesql N'commit'; commit transaction;\n", "no_dynamic_sql"),
    "raiserror": ("throw 51001, N'limit must be 1 or more', 1", "raiserror(N'no', 16, 1)",
                  "throw_our_errors"),
    "any number": ("throw 51001", "throw 50001", "throw_our_errors"),
    "a number unsaid": ("throw 51001", "throw 51003", "throw_our_errors"),
    "select before commit": (COMMIT_AND_SELECT,
                             "".join(reversed(COMMIT_AND_SELECT.splitlines(True))),
                             "results_after_commit"),
    "output to the client": ("  from @claimed as c", "output inserted.RequestId from @claimed as c",
                             "results_after_commit"),
    "no commit": ("commit transaction;\n", "", "results_after_commit"),
    "a variable for a literal": ("and q.Status = 'Pending'", "and q.Status = @p_limit",
                                 "literals_for_filtered_indexes"),
    "the other way round": ("where Queue.Status = 'Pending'", "where @p_limit = Queue.Status",
                            "literals_for_filtered_indexes"),
    "waiting for ever": (", @LockTimeout = 0", "", "app_locks_are_answered"),
    "a lock of anybody's": ("@DbPrincipal = N'rowlease_lock'", "@LockMode = 'Exclusive'",
                            "app_locks_are_answered"),
    "an answer unheard": ("exec @granted = sys", "exec sys", "app_locks_are_answered"),
    "an argument that is not taken": (
        "begin transaction;\n", "begin transaction;\nexec rowlease.schema_version 1;\n",
        "calls_fit"),
    "an argument that is missing": (
        "begin transaction;\n", "begin transaction;\nexec rowlease.get_request;\n", "calls_fit"),
    "an output that is none": (
        "begin transaction;\n",
        "begin transaction;\nexec rowlease.get_request @granted output;\n", "calls_fit"),
    "a value without a column": ("select f.RequestId from found",
                                 "select f.RequestId, 1 from found", "inserts_fit"),
    "a column without a value": (
        "insert into @claimed (RequestId) select f.RequestId from found as f",
        "insert into @claimed (RequestId, B) values (1, 2), (3)", "inserts_fit"),
    "plus equals": ("LockToken = LockToken + 1", "LockToken += 1", "every_t_sql_engine_has_it"),
    "a star": ("select w.RequestId as request_id from @claimed as w", "select * from @claimed",
               "every_t_sql_engine_has_it"),
    "waitfor": ("begin transaction;\n", "begin transaction;\nwaitfor delay '0:1';\n",
                "every_t_sql_engine_has_it"),
    "merge": ("commit transaction;\n",
              "merge @claimed as t using @claimed as s on t.RequestId = s.RequestId"
              " when matched then delete; commit transaction;\n", "every_t_sql_engine_has_it"),
    "a table type": ("@p_limit int, @", "@p_limit int, @p_ids rowlease.ids readonly, @",
                     "every_t_sql_engine_has_it"),
    "no schema": ("from rowlease.Queue as q", "from Queue as q", "names_have_schemas"),
}  # fmt: skip


def linted(*paths: Path) -> list[lint.Finding]:
    """The findings, from a process of its own: a .NET runtime is loaded for good."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.tsql.lint", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode in (0, 1), ran.stderr
    return [lint.Finding(**json.loads(line)) for line in ran.stdout.splitlines()]


def printed(findings: Iterable[lint.Finding]) -> str:
    return "\n".join(f"{f.file}:{f.line}: {f.says} [{f.rule}]" for f in findings)


def test_every_file_parses_and_keeps_the_rules() -> None:
    folder = packaged_folder("sql") / "sqlserver"
    assert list(folder.rglob("*.sql"))
    found = linted(folder)
    assert not found, printed(found)


@pytest.mark.parametrize(
    ("name", "guard"),
    [
        # Housekeeping loses a deadlock, waits for no lock, and commits each step.
        ("maintain", r"set deadlock_priority low;\nset lock_timeout 0;"),
        (
            "maintain",
            r"while [^;]*\nbegin\n.*begin transaction;.*commit transaction;.*\nend;\nselect",
        ),
        # Only -1 means that another session has the lock.
        ("try_lock", r"if @granted >= -1\n  return;\n.*throw 51012"),
        # A caller's session may wait for locks for ever.
        (
            "take_lock",
            r"case when @@lock_timeout between 0 and 10000 then @@lock_timeout\s+else 10000",
        ),
        # A promote locks what it inserts, and not what it has staged.
        ("promote", r"commit transaction;\nexec rowlease_internal.drop_staged "),
        ("begin_load", r"commit transaction;\nexec rowlease_internal.drop_staged "),
        # What an xml parameter would read as markup.
        ("as_xml", r"\(@p_json, N'&', N'\\u0026'\), N'<', N'\\u003c'\), N'>', N'\\u003e'\);"),
    ],
)
def test_a_routine_has_a_guard_that_no_engine_here_can_show(name: str, guard: str) -> None:
    assert re.search(guard, load_routines("sqlserver")[name].body, re.DOTALL)


def test_every_rule_notices_what_breaks_it(tmp_path: Path) -> None:
    good = tmp_path / "dequeue"
    good.mkdir()
    (good / "claim_carefully.sql").write_text(GOOD)
    rules = {}
    for what, (old, new, rule) in BROKEN.items():
        assert old in GOOD, what
        file = tmp_path / what / "dequeue" / "claim_carefully.sql"
        file.parent.mkdir(parents=True)
        file.write_text(GOOD.replace(old, new))
        rules[str(file)] = (what, rule)
    found = linted(tmp_path)
    assert not [f for f in found if f.file not in rules], printed(found)
    noticed = {(rules[f.file][0], f.rule) for f in found}
    assert noticed >= set(rules.values()), set(rules.values()) - noticed
    assert {rule for _, rule in rules.values()} == {"grammar"} | {
        rule.__name__ for rule in lint.RULES
    }, "each rule is tried"
