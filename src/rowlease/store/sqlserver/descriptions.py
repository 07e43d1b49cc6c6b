"""Writes the comments of rowlease's objects to a SQL Server database, as MS_Description."""

from __future__ import annotations

import re

from rowlease.store.comments import read_comments

#: The number of rows of an INSERT. SQL Server allows 1,000.
INSERT_ROWS = 500
INSERT = "insert into @objects (SchemaName, Name, ColumnName, Description) values\n"
INSERT_SQL = """\
declare @objects table (
  Place int identity primary key, SchemaName nvarchar(128) not null, Name nvarchar(128) null,
  ColumnName nvarchar(128) null, Description nvarchar(3750) not null);
{inserts}
declare @place int = 0, @schema nvarchar(128), @name nvarchar(128), @column nvarchar(128);
declare @text nvarchar(3750), @id int, @type varchar(10), @inner varchar(10);
while 1 = 1
begin
  select top (1) @place = o.Place, @schema = o.SchemaName, @name = o.Name, @column = o.ColumnName,
         @text = o.Description
    from @objects as o where o.Place > @place order by o.Place;
  if @@rowcount = 0
    break;
  set @id = object_id(quotename(@schema) + N'.' + quotename(@name));
  set @type = case when @name is null then null
                   when objectproperty(@id, 'IsView') = 1 then 'VIEW'
                   when objectproperty(@id, 'IsUserTable') = 1 then 'TABLE'
                   when objectproperty(@id, 'IsProcedure') = 1 then 'PROCEDURE'
                   else 'FUNCTION' end;
  set @inner = case when @column is not null then 'COLUMN' end;
  if exists (select 1 from sys.fn_listextendedproperty(
               N'MS_Description', 'SCHEMA', @schema, @type, @name, @inner, @column))
    exec sp_updateextendedproperty N'MS_Description', @text, 'SCHEMA', @schema, @type, @name,
                                   @inner, @column;
  else
    exec sp_addextendedproperty N'MS_Description', @text, 'SCHEMA', @schema, @type, @name,
                                @inner, @column;
end;"""


def descriptions() -> str:
    """The batch that sets the description of every object."""
    rows = [
        "(" + ", ".join(map(_literal, (*_names(name), text))) + ")"
        for name, text in read_comments("sqlserver", pascal_case).items()
    ]
    inserts = (
        INSERT + ",\n".join(rows[first : first + INSERT_ROWS]) + ";"
        for first in range(0, len(rows), INSERT_ROWS)
    )
    return INSERT_SQL.replace("{inserts}", "\n".join(inserts))


def _names(name: str) -> list[str | None]:
    """The schema, object and column in `column rowlease.Queue.Kind`; the last two may be None."""
    parts = name.partition(" ")[2].split(".")
    return [*parts, None, None][:3]


def _literal(text: str | None) -> str:
    return "null" if text is None else "N'" + text.replace("'", "''") + "'"


def pascal_case(name: str) -> str:
    """`due_time` as `DueTime`, and `column rowlease.queue.kind` as `column rowlease.Queue.Kind`."""
    schema, dot, rest = name.rpartition("rowlease.")
    words = re.sub(r"(?:^|(?<=\.)|_)(\w)", lambda first: first[1].upper(), rest)
    return f"{schema}{dot}{words}"
