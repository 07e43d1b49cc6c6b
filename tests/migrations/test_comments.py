"""Every object has a comment in the catalogue, and it is the text of the file that defines it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rowlease.store import comments as module
from rowlease.store import engine_of, migrate
from rowlease.store import routines as routines_module
from rowlease.store.comments import read_comments
from rowlease.store.differences import read_catalogue
from rowlease.store.routines import all_files, packaged_folder
from rowlease.store.sqlserver.descriptions import descriptions, pascal_case
from tests.contract import sqlserver
from tests.migrations.catalogue import DAILY

Sql = Callable[..., list[tuple[Any, ...]]]

#: Every object of rowlease, with its comment.
POSTGRESQL = """
select 'schema ' || n.nspname, obj_description(n.oid, 'pg_namespace')
  from pg_namespace n where n.nspname in ('rowlease', 'rowlease_internal')
union all
select case c.relkind when 'v' then 'view ' else 'table ' end || n.nspname || '.' || c.relname,
       obj_description(c.oid, 'pg_class')
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('rowlease', 'rowlease_internal') and c.relkind in ('r', 'p', 'v')
   and c.relname !~ %(daily)s
union all
select 'column ' || n.nspname || '.' || c.relname || '.' || a.attname,
       col_description(c.oid, a.attnum)
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('rowlease', 'rowlease_internal') and c.relkind in ('r', 'p', 'v')
   and a.attnum > 0 and not a.attisdropped and c.relname !~ %(daily)s
union all
select 'routine ' || n.nspname || '.' || p.proname, obj_description(p.oid, 'pg_proc')
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('rowlease', 'rowlease_internal')
"""
SQLSERVER = """
select 'schema ' + s.name, cast(e.value as nvarchar(3750))
  from sys.schemas as s
  left join sys.extended_properties as e
         on e.class = 3 and e.major_id = s.schema_id and e.name = 'MS_Description'
 where s.name in ('rowlease', 'rowlease_internal')
union all
select case when o.type = 'U' then 'table ' when o.type = 'V' then 'view ' else 'routine ' end
         + s.name + '.' + o.name, cast(e.value as nvarchar(3750))
  from sys.objects as o join sys.schemas as s on s.schema_id = o.schema_id
  left join sys.extended_properties as e
         on e.class = 1 and e.major_id = o.object_id and e.minor_id = 0
        and e.name = 'MS_Description'
 where s.name in ('rowlease', 'rowlease_internal') and o.type in ('U', 'V', 'P', 'FN', 'IF', 'TF')
union all
select 'column ' + s.name + '.' + o.name + '.' + c.name, cast(e.value as nvarchar(3750))
  from sys.columns as c
  join sys.objects as o on o.object_id = c.object_id
  join sys.schemas as s on s.schema_id = o.schema_id
  left join sys.extended_properties as e
         on e.class = 1 and e.major_id = o.object_id and e.minor_id = c.column_id
        and e.name = 'MS_Description'
 where s.name in ('rowlease', 'rowlease_internal') and (o.type = 'U' or o.type = 'V' and 1 = 1)
"""


def test_every_object_has_its_comment(sql: Sql) -> None:
    found: dict[str, str] = dict(sql(POSTGRESQL, {"daily": DAILY}))
    assert not [name for name, comment in found.items() if not comment]
    assert found == read_comments("postgresql")


def test_every_day_of_the_history_has_the_comments_of_the_history(sql: Sql) -> None:
    sql("select rowlease.maintain()")
    columns = """
        select a.attname, col_description(a.attrelid, a.attnum) from pg_attribute a
         where a.attrelid = %s::regclass and a.attnum > 0 order by a.attnum"""
    days = sql(
        """select c.oid::regclass::text, obj_description(c.oid, 'pg_class') from pg_class c
            where c.relname ~ %s and c.relkind = 'r'""",
        [DAILY],
    )
    assert len(days) >= 2
    for day, comment in days:
        assert re.fullmatch(r"Finished requests of \d{4}-\d\d-\d\d, UTC.", comment)
        assert sql(columns, [day]) == sql(columns, ["rowlease.queue_history"])


@pytest.mark.parametrize("engine", ["postgresql", "sqlserver"])
def test_every_table_column_and_routine_of_the_release_has_a_comment(engine: str) -> None:
    objects = {
        name.replace("view ", "table ")
        for name in read_catalogue(engine)
        if name.startswith(("table ", "view ", "column "))
    }
    objects |= {
        made[2].lower() for file in all_files(engine) if (made := module.MADE.search(file.body))
    }
    found = read_comments(engine, pascal_case if engine == "sqlserver" else str)
    has = {name.replace("view ", "table ") for name in found}
    has |= {name.partition(" ")[2].lower() for name in found}
    assert objects - has <= {
        "rowlease.fill_request",
        "rowlease.end_part",
    }  # a trigger on SQL Server
    assert max(map(len, found.values())) <= 3750  # what an extended property holds


def test_both_engines_say_the_same_of_the_same_column() -> None:
    ours = {pascal_case(name): text for name, text in read_comments("postgresql").items()}
    theirs = read_comments("sqlserver", pascal_case)
    same = {name for name in theirs if name.startswith("column ") and name in ours}
    assert len(same) > 150
    assert {name for name in same if ours[name] != theirs[name]} == set()


def test_a_comment_of_a_later_revision_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_versions(tmp_path, monkeypatch)
    (tmp_path / "migrations/versions/0002_note_postgresql.sql").write_text(
        "alter table rowlease.queue add column note text;  -- a person's remark\n"
        "-- The remarks.\ncreate table rowlease.remark (\n  author text\n  -- who wrote it\n"
        "    default 'x',\n  kind text\n);\n"
    )
    found = read_comments("postgresql")
    assert found["column rowlease.queue.note"] == "a person's remark"
    assert found["table rowlease.remark"] == "The remarks."
    assert found["column rowlease.remark.kind"] == "the name of the task"
    assert "column rowlease.remark.author" not in found


def test_a_changed_comment_is_migrated_and_differs_in_nothing(
    dsn: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not migrate(dsn).changed
    in_versions(tmp_path, monkeypatch)
    file = tmp_path / "migrations/versions/0001_tables_postgresql.sql"
    file.write_text(file.read_text().replace("-- larger is more urgent", "-- it's another"))
    assert migrate(dsn).changed
    query = (
        "select col_description(attrelid, attnum) from pg_attribute"
        " where attrelid = 'rowlease.queue'::regclass and attname = 'priority'"
    )
    assert sql(query) == [("it's another",)]
    assert engine_of(dsn).schema_differences() == []


def in_versions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the migrations from a copy of theirs."""
    shutil.copytree(packaged_folder("migrations"), folder / "migrations")

    def moved(name: str) -> Path:
        return folder / name if name == "migrations" else packaged_folder(name)

    monkeypatch.setattr(module, "packaged_folder", moved)
    monkeypatch.setattr(routines_module, "packaged_folder", moved)


on_sqlserver = pytest.mark.skipif(
    sqlserver.missing() is not None, reason=sqlserver.missing() or "it is there"
)


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with (
        sqlserver.server() as server,
        sqlserver.database(server) as dsn,
        closing(sqlserver.connect(dsn)) as found,
    ):
        yield found


@on_sqlserver
def test_every_object_has_its_comment_on_sqlserver(connection: Any) -> None:
    query = SQLSERVER
    if is_babelfish := sqlserver.is_babelfish(connection):
        query = query.replace("1 = 1", "1 = 0")  # it keeps none of a view's columns
    found = {name.lower(): text for name, text in connection.execute(query).fetchall()}
    assert not [name for name, comment in found.items() if not comment]
    wanted = {name.lower(): text for name, text in read_comments("sqlserver", pascal_case).items()}
    if is_babelfish:
        wanted = {name: text for name, text in wanted.items() if name in found}
    assert found == wanted


@on_sqlserver
def test_comments_that_exist_are_replaced_on_sqlserver(connection: Any) -> None:
    connection.execute(
        "exec sp_updateextendedproperty N'MS_Description', N'mine', 'SCHEMA', N'rowlease', 'TABLE',"
        " N'Queue', 'COLUMN', N'Kind'"
    )
    for batch in sqlserver.rewritten(descriptions()):
        connection.execute(batch)
    test_every_object_has_its_comment_on_sqlserver(connection)
