"""sql/sqlserver, read by Microsoft's own grammar: it parses, and keeps the house's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rowlease.store.routines import packaged_folder
from tests.tsql import guards as listed
from tests.tsql import lint, scriptdom
from tests.tsql.guards import guards
from tests.tsql.script import Finding

pytestmark = pytest.mark.skipif(
    scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there"
)

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
set deadlock_priority low;
set lock_timeout 0;
if @p_limit < 1
  throw 51001, N'limit must be 1 or more', 1;
declare @claimed table (RequestId bigint primary key);
declare @names table (Name nvarchar(255) not null primary key);
declare @granted int, @free bit, @left int = 2, @name nvarchar(255) = N'';
begin transaction;
insert into @names (Name) values (N'rowlease:r:1'), (N'rowlease:r:2');
while @left > 0
begin
  set @name = (select min(n.Name) from @names as n where n.Name > @name);
  exec rowlease_internal.take_lock @name;
  set @left = @left - 1;
end;
exec rowlease_internal.try_lock N'rowlease:g:1', @free output;
if @free = 0
  return;
exec @granted = sys.sp_getapplock @Resource = N'rowlease:claim', @LockMode = 'Exclusive',
                                  @LockOwner = 'Transaction', @LockTimeout = 0,
                                  @DbPrincipal = N'rowlease_lock';
if @granted < 0
  return;
with found as (
  select top (@p_limit) q.RequestId
    from rowlease.Queue as q
      with (forceseek (queue_pending (QueueName)), updlock, readpast, rowlock)
   where q.QueueName = N'a' and q.Status = 'Pending' and q.GroupBlocked = 0
   order by q.Priority desc, q.DueTime, q.RequestId
)
insert into @claimed (RequestId) select f.RequestId from found as f
option (loop join, maxdop 1);
update rowlease.Queue set LockToken = LockToken + 1
  from @claimed as c
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = c.RequestId
 where Queue.Status = 'Pending' and Queue.GroupBlocked = 0
option (loop join, force order, maxdop 1);
delete top (1000) h
  from rowlease.QueueHistory as h with (index (queue_history_completed), forceseek, rowlock)
 where h.CompletionTime < sysutcdatetime()
option (maxdop 1);
set @p_found = rowlease_internal.as_xml((
  select w.RequestId as id from @claimed as w for json path));
commit transaction;
select w.RequestId as request_id from @claimed as w;
"""
#: What guards.toml would have for it.
GUARDS = """
[rows]
claim_carefully = { queue = "claim skip", queuehistory = "wait" }
[locks]
claim_carefully = "each r, g if free, claim if free"
take_load = "load"
[order]
of_locks = ["r", "load"]
[order.but]
[answers]
claim_carefully = ["<0"]
[asked_once]
[held]
after = []
[asks]
claim_carefully = ["Status = 'Pending' and GroupBlocked = 0"]
[top]
any_row_will_do = []
newest_first = []
[top.few_rows]
[says]
claim_carefully = [['throw 51001, N.limit', "refuse a wrong limit"]]
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
    "readpast alone": ("updlock, readpast, rowlock", "readpast, rowlock",
                       "locked_rows_are_treated_as_listed"),
    "pages": ("updlock, readpast, rowlock", "updlock, readpast",
              "locked_rows_are_treated_as_listed"),
    "nolock": ("updlock, readpast, rowlock", "nolock", "locked_rows_are_treated_as_listed"),
    "a change of a page": ("forceseek, rowlock)", "forceseek)", "changes_lock_rows"),
    "a status that is not asked again": (
        "Queue.Status = 'Pending' and ", "", "what_was_true_is_asked_again"),
    "another status": ("where Queue.Status = 'Pending'", "where Queue.Status = 'Failed'",
                       "changes_ask_as_listed"),
    "a function round a column": ("q.QueueName = N'a'", "upper(q.QueueName) = N'a'",
                                  "columns_stand_alone"),
    "a collation round a column": (
        "q.QueueName = N'a'", "q.QueueName collate Latin1_General_100_BIN2 = N'a'",
        "columns_stand_alone"),
    "a column that is not asked for": ("q.QueueName = N'a' and ", "", "columns_stand_alone"),
    "half of the columns of a seek": (
        "q.QueueName = N'a' and", "q.QueueName = N'a' and q.Priority = 5 and",
        "the_longest_seek_is_named"),
    "a text of another type": ("where q.QueueName = N'a' and q.Status = 'Pending'",
                               "where q.QueueName = N'a' and q.Status = N'Pending'",
                               "literals_have_the_column_s_type"),
    "any rows": ("   order by q.Priority desc, q.DueTime, q.RequestId\n", "",
                 "the_first_rows_are_the_index_s"),
    "the last rows": ("order by q.Priority desc, q.DueTime", "order by q.Priority, q.DueTime",
                      "the_first_rows_are_the_index_s"),
    "rows without end": ("delete top (1000) h", "delete h", "steps_are_bounded"),
    "housekeeping that waits": ("set lock_timeout 0;\n", "", "housekeeping_waits_for_nobody"),
    "housekeeping that wins": ("set deadlock_priority low;\n", "",
                               "housekeeping_waits_for_nobody"),
    "a text that is listed": ("N'limit", "N'the limit", "listed_texts_are_there"),
    "a lock that others may share": ("'Exclusive'", "'Shared'", "locks_are_taken_as_listed"),
    "a lock that is not taken": (
        "exec rowlease_internal.try_lock N'rowlease:g:1', @free output;\n", "",
        "locks_are_taken_as_listed"),
    "a lock before an earlier one": (
        "begin transaction;\n", "begin transaction;\nexec rowlease_internal.take_load N'a', 1;\n",
        "locks_are_taken_in_order"),
    "locks in any order": ("where n.Name > @name", "where n.Name <> @name",
                           "many_locks_go_by_name"),
    "a lock of the session": ("'Transaction'", "'Session'", "app_locks_are_ours"),
    "a lock that is waited for without end": ("@LockTimeout = 0", "@LockTimeout = -1",
                                              "app_locks_are_ours"),
    "a lock that is another's": ("if @granted < 0", "if @granted < -1", "answers_are_heard"),
    "a lock that may not be had": ("if @free = 0\n", "if 1 = 0\n", "answers_are_heard"),
    "skipping unsaid": (", skipping locked ones", "", "readpast_is_said"),
    "updlock where nothing is claimed": ("update rowlease.Queue set",
                                         "update rowlease.Queue with (updlock, rowlock) set",
                                         "locked_rows_are_treated_as_listed"),
    "a table of the caller's": ("insert into @claimed (RequestId) select",
                                "insert into #claimed (RequestId) select",
                                "temporary_tables_are_its_own"),
    "json in xml as it is": ("= rowlease_internal.as_xml((", "= ((", "json_in_xml_is_escaped"),
    "waiting for a row": ("forceseek, rowlock, readpast", "forceseek, rowlock",
                          "locked_rows_are_treated_as_listed"),
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
    "a claim that locks in any order": ("\noption (loop join, maxdop 1)", "", "seeks_are_pinned"),
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
    "waiting for ever": (", @LockTimeout = 0", "", "app_locks_are_ours"),
    "a lock of anybody's": ("@DbPrincipal = N'rowlease_lock'", "@LockMode = 'Exclusive'",
                            "app_locks_are_ours"),
    "an answer unheard": ("exec @granted = sys", "exec sys", "app_locks_are_ours"),
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


def printed(findings: Iterable[Finding]) -> str:
    return "\n".join(f"{f.file}:{f.line}: {f.says} [{f.rule}]" for f in findings)


def test_every_file_parses_and_keeps_the_rules() -> None:
    folder = packaged_folder("sql") / "sqlserver"
    assert list(folder.rglob("*.sql"))
    parse = scriptdom.load()
    found = [one for path in folder.rglob("*.sql") for one in lint.findings(path, parse)]
    assert not found, printed(found)


def test_the_order_of_locks_is_that_of_the_page() -> None:
    page = (packaged_folder("sql") / "README.md").read_text(encoding="utf-8")
    sentence = page.partition("The locks for which a call waits are taken in this order:")[2]
    named = re.findall(r"`(\w+)`", sentence.partition("then rows.")[0])
    assert [one for one in named if one not in ("promote", "recount")] == guards("order")[
        "of_locks"
    ]


@pytest.fixture
def guards_of_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ways = listed.FILE.read_text(encoding="utf-8").partition("[rows]")[0]
    file = tmp_path / "guards.toml"
    file.write_text(ways + GUARDS, encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(listed, "FILE", file)
        guards.cache_clear()
        yield
    guards.cache_clear()


@pytest.mark.usefixtures("guards_of_good")
def test_every_rule_notices_what_breaks_it() -> None:
    path, parse = Path("maintain/claim_carefully.sql"), scriptdom.load()
    whole = list(lint.findings(path, parse, GOOD))
    assert not whole, printed(whole)
    for what, (old, new, rule) in BROKEN.items():
        assert old in GOOD, what
        found = {one.rule for one in lint.findings(path, parse, GOOD.replace(old, new))}
        assert rule in found, what
    assert {rule for *_, rule in BROKEN.values()} == {"grammar"} | {
        rule.__name__ for rule in lint.RULES
    }, "each rule is tried"
