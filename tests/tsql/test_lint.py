"""sql/sqlserver, read by Microsoft's own grammar: it parses, and keeps the house's rules."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from rowlease.store.routines import packaged
from tests.tsql import lint, scriptdom

pytestmark = pytest.mark.skipif(
    scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there"
)

ROOT = Path(__file__).resolve().parents[2]
#: A procedure that keeps all the rules, to be broken in one place each.
GOOD = """\
-- wave: say hello to whoever waits.
-- params:   p_limit int
-- returns:  request_id bigint
-- errors:   RL001 a limit below 1
-- locks:    rows of queue, skipping locked ones
-- why:      a test.
create or alter procedure rowlease.wave @p_limit int
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
if @p_limit < 1
  throw 51001, N'limit must be 1 or more', 1;
declare @waved table (RequestId bigint primary key);
declare @granted int;
begin transaction;
exec @granted = sys.sp_getapplock @Resource = N'wave', @LockMode = 'Exclusive',
                                  @LockOwner = 'Transaction', @LockTimeout = 0;
with found as (
  select top (@p_limit) q.RequestId
    from rowlease.Queue as q with (updlock, readpast, rowlock)
   where q.Status = 'Pending'
)
insert into @waved (RequestId) select f.RequestId from found as f;
update rowlease.Queue set LockToken = LockToken + 1
 where RequestId in (select w.RequestId from @waved as w) and Status = 'Pending';
commit transaction;
select w.RequestId as request_id from @waved as w;
"""
READ_COMMITTED = "set transaction isolation level read committed;\n"
COMMIT_AND_SELECT = """\
commit transaction;
select w.RequestId as request_id from @waved as w;
"""
#: What is put instead of what, and the rule that must notice.
BROKEN = {
    "half a statement": ("set LockToken = LockToken + 1", "set LockToken =", "grammar"),
    "two batches": ("commit transaction;\n", "commit transaction;\ngo\n", "one_batch"),
    "create alone": ("create or alter procedure", "create procedure", "one_batch"),
    "another name": ("rowlease.wave", "rowlease.greet", "named_as_its_file"),
    "another schema": ("rowlease.wave", "dbo.wave", "named_as_its_file"),
    "no nocount": ("set nocount on;\n", "", "begins_with_its_settings"),
    "no xact_abort": ("set xact_abort on;\n", "", "begins_with_its_settings"),
    "xact_abort off": (READ_COMMITTED, READ_COMMITTED + "set xact_abort off;\n",
                       "begins_with_its_settings"),
    "no isolation level": (READ_COMMITTED, "", "begins_with_its_settings"),
    "snapshot": ("level read committed", "level snapshot", "begins_with_its_settings"),
    "readpast alone": ("updlock, readpast, rowlock", "readpast, rowlock", "no_hint_that_lies"),
    "pages": ("updlock, readpast, rowlock", "updlock, readpast", "no_hint_that_lies"),
    "nolock": ("updlock, readpast, rowlock", "nolock", "no_hint_that_lies"),
    "tablock": ("as q with (updlock, readpast, rowlock)", "as q with (tablock)",
                "no_hint_that_lies"),
    "skipping unsaid": (", skipping locked ones", "", "readpast_is_said"),
    "hints by key": ("update rowlease.Queue set", "update rowlease.Queue with (rowlock) set",
                     "no_hints_where_rows_are_changed"),
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
    "output to the client": (" where RequestId in", " output inserted.RequestId where RequestId in",
                             "results_after_commit"),
    "no commit": ("commit transaction;\n", "", "results_after_commit"),
    "a variable for a literal": ("where q.Status = 'Pending'", "where q.Status = @p_limit",
                                 "literals_for_filtered_indexes"),
    "the other way round": ("and Status = 'Pending'", "and @p_limit = Status",
                            "literals_for_filtered_indexes"),
    "waiting for ever": (", @LockTimeout = 0", "", "app_locks_are_answered"),
    "an answer unheard": ("exec @granted = sys", "exec sys", "app_locks_are_answered"),
    "plus equals": ("LockToken = LockToken + 1", "LockToken += 1", "every_t_sql_engine_has_it"),
    "a star": ("select w.RequestId as request_id from @waved as w", "select * from @waved",
               "every_t_sql_engine_has_it"),
    "waitfor": ("begin transaction;\n", "begin transaction;\nwaitfor delay '0:1';\n",
                "every_t_sql_engine_has_it"),
    "merge": ("commit transaction;\n",
              "merge @waved as t using @waved as s on t.RequestId = s.RequestId"
              " when matched then delete; commit transaction;\n", "every_t_sql_engine_has_it"),
    "a table type": ("@p_limit int\nas", "@p_limit int, @p_ids rowlease.ids readonly\nas",
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
        timeout=100,
    )
    assert ran.returncode in (0, 1), ran.stderr
    return [lint.Finding(**json.loads(line)) for line in ran.stdout.splitlines()]


def said(findings: Iterable[lint.Finding]) -> str:
    return "\n".join(f"{f.file}:{f.line}: {f.says} [{f.rule}]" for f in findings)


def test_every_file_parses_and_keeps_the_rules() -> None:
    folder = packaged("sql") / "sqlserver"
    assert list(folder.glob("*.sql"))
    found = linted(folder)
    assert not found, said(found)


def test_every_rule_notices_what_breaks_it(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "wave.sql").write_text(GOOD)
    rules = {}
    for place, (what, (old, new, rule)) in enumerate(BROKEN.items()):
        assert old in GOOD, what
        folder = tmp_path / str(place)
        folder.mkdir()
        # The name alone tells them apart in the findings; the procedure's follows.
        (folder / f"wave{place}.sql").write_text(
            GOOD.replace(old, new).replace("rowlease.wave", f"rowlease.wave{place}")
        )
        rules[f"wave{place}.sql"] = (what, rule)
    found = linted(tmp_path)
    assert not [f for f in found if f.file == "wave.sql"], said(found)
    noticed = {(rules[f.file][0], f.rule) for f in found}
    assert noticed >= set(rules.values()), set(rules.values()) - noticed
    stray = {name for name in noticed if name not in set(rules.values())}
    assert not {name for name in stray if name[0] not in ("half a statement",)}, stray
    assert {rule for _, rule in rules.values()} == {"grammar"} | {
        rule.__name__ for rule in lint.RULES
    }, "each rule is tried"
