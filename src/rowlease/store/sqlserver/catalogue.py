"""Reads the definitions of rowlease's objects from a database, and those that this release expects.

The expected tables and grants are in sql/sqlserver/catalogue.json, which is made from the scripts
with Microsoft's grammar. The expected routines, views and triggers are the files in sql/sqlserver.
SQL Server stores their texts, but rewrites the expressions of tables: see `comparisons`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rowlease.store.differences import fingerprint, read_catalogue
from rowlease.store.routines import all_files

SCHEMAS_QUERY = """
    select s.name, case when s.principal_id <> r.principal_id then user_name(s.principal_id) end
           as owner
      from sys.schemas as s join sys.schemas as r on r.name = 'rowlease'
     where s.name in ('rowlease', 'rowlease_internal')"""
OBJECTS = """
    select s.name + '.' + o.name as name, o.type, o.type_desc,
           case when o.principal_id <> s.principal_id then user_name(o.principal_id) end as owner,
           t.lock_escalation_desc, m.definition, m.uses_quoted_identifier, m.uses_ansi_nulls,
           d.is_disabled
      from sys.objects as o
      join sys.schemas as s on s.schema_id = o.schema_id
      left join sys.tables as t on t.object_id = o.object_id
      left join sys.sql_modules as m on m.object_id = o.object_id
      left join sys.triggers as d on d.object_id = o.object_id
     where s.name in ('rowlease', 'rowlease_internal')
       and o.type not in ('C', 'D', 'PK', 'UQ', 'IT')"""
COLUMNS_QUERY = """
    select s.name + '.' + t.name + '.' + c.name as name, y.name as type, c.max_length, c.precision,
           c.scale, c.collation_name, c.is_nullable, c.is_identity, d.definition as [default],
           k.definition as computed, k.is_persisted
      from sys.columns as c
      join sys.tables as t on t.object_id = c.object_id
      join sys.schemas as s on s.schema_id = t.schema_id
      join sys.types as y on y.user_type_id = c.user_type_id
      left join sys.default_constraints as d on d.object_id = c.default_object_id
      left join sys.computed_columns as k
             on k.object_id = c.object_id and k.column_id = c.column_id
     where s.name in ('rowlease', 'rowlease_internal')"""
CHECKS_QUERY = """
    select s.name + '.' + t.name + '.' + k.name as name, k.definition, k.is_disabled,
           k.is_not_trusted
      from sys.check_constraints as k
      join sys.tables as t on t.object_id = k.parent_object_id
      join sys.schemas as s on s.schema_id = t.schema_id
     where s.name in ('rowlease', 'rowlease_internal')"""
INDEXES_QUERY = """
    select s.name + '.' + t.name + '.' + i.name as name, i.type_desc, i.is_primary_key,
           i.is_unique_constraint, i.is_unique, i.filter_definition, i.allow_page_locks,
           i.allow_row_locks, i.ignore_dup_key, i.is_disabled,
           (select string_agg(c.name + case x.is_descending_key when 1 then ' desc' else '' end,
                              ', ') within group (order by x.key_ordinal)
              from sys.index_columns as x
              join sys.columns as c on c.object_id = x.object_id and c.column_id = x.column_id
             where x.object_id = i.object_id and x.index_id = i.index_id
               and x.key_ordinal > 0) as keys,
           (select string_agg(c.name, ', ') within group (order by c.name)
              from sys.index_columns as x
              join sys.columns as c on c.object_id = x.object_id and c.column_id = x.column_id
             where x.object_id = i.object_id and x.index_id = i.index_id
               and x.is_included_column = 1) as included
      from sys.indexes as i
      join sys.tables as t on t.object_id = i.object_id
      join sys.schemas as s on s.schema_id = t.schema_id
     where s.name in ('rowlease', 'rowlease_internal') and i.type > 0 and i.is_hypothetical = 0"""
TYPES_QUERY = """
    select s.name + '.' + y.name as name
      from sys.types as y join sys.schemas as s on s.schema_id = y.schema_id
     where s.name in ('rowlease', 'rowlease_internal')"""
GRANTS = """
    select lower(p.permission_name) as permission, p.state, g.name as grantee,
           case p.class when 3 then 'schema ' + s.name else s.name + '.' + o.name end as name,
           c.name as [column]
      from sys.database_permissions as p
      join sys.database_principals as g on g.principal_id = p.grantee_principal_id
      left join sys.objects as o on p.class = 1 and o.object_id = p.major_id
      join sys.schemas as s
        on s.schema_id = case p.class when 3 then p.major_id else o.schema_id end
      left join sys.columns as c
             on c.object_id = o.object_id and p.minor_id > 0 and c.column_id = p.minor_id
     where s.name in ('rowlease', 'rowlease_internal') and p.class in (1, 3)"""
#: Members of this role can take the application locks of rowlease, and so block its routines.
MEMBERS = """
    select m.name + ' of ' + r.name as name
      from sys.database_role_members as b
      join sys.database_principals as r on r.principal_id = b.role_principal_id
      join sys.database_principals as m on m.principal_id = b.member_principal_id
     where r.name = 'rowlease_lock'"""
#: A login without this permission sees no definitions and only a few objects.
SEES_ALL = """
    select count(*) from sys.fn_my_permissions(null, 'DATABASE')
     where permission_name = 'VIEW DEFINITION'"""
COLLATION = "select cast(databasepropertyex(db_name(), 'Collation') as nvarchar(128))"
#: The kinds of objects, by their type in sys.objects. For others, the server's name is used.
OBJECT_KINDS = {
    "U": "table", "V": "view", "TR": "trigger", "P": "routine", "FN": "routine", "IF": "routine",
    "TF": "routine", "F": "constraint",
}  # fmt: skip
#: Pairs of equivalent expressions, without brackets and parentheses.
RESPELT = (
    (r"(\w+) between (\S+) and (\S+)", r"\1 >= \2 and \1 <= \3"),
    (r"\bcast (.+) as (\w+)", r"convert \2 \1"),
    (r"case when (\w+) is not null then \1 else (\S+) end", r"coalesce \1 \2"),
)


def sees_all(connection: Any) -> bool:
    """Whether the login can see every definition of the database."""
    return bool(connection.execute(SEES_ALL).fetchval())


def read(connection: Any) -> dict[str, str]:
    """The definition of every object of rowlease's schemas; for a routine, its fingerprint."""
    return dict(
        described(row)
        for query, described in DESCRIBED.items()
        for row in connection.execute(query).fetchall()
    )


def _schema(row: Any) -> tuple[str, str]:
    return f"schema {row.name}", f"owner {row.owner or 'as of schema rowlease'}"


def _object(row: Any) -> tuple[str, str]:
    kind = OBJECT_KINDS.get(row.type.strip(), row.type_desc.lower().replace("_", " "))
    escalation = row.lock_escalation_desc
    return f"{kind} {row.name}", _joined(
        escalation not in (None, "TABLE") and f"lock escalation {escalation}".lower(),
        row.definition and module(row.definition),
        row.owner and f"owner {row.owner}",
        row.uses_quoted_identifier is False and "quoted_identifier off",
        row.uses_ansi_nulls is False and "ansi_nulls off",
        row.is_disabled and "disabled",
    )


def _column(row: Any) -> tuple[str, str]:
    if row.computed is not None:
        definition = _joined("as", comparisons(row.computed), row.is_persisted and "persisted")
    else:
        definition = _joined(
            row.type + _size(row),
            row.collation_name and f"collate {row.collation_name}",
            not row.is_nullable and "not null",
            row.is_identity and "identity",
            row.default is not None and f"default {comparisons(row.default)}",
        )
    return f"column {row.name}", definition


def _size(row: Any) -> str:
    match row.type:
        case "nvarchar" | "nchar" | "varchar" | "char" | "varbinary" | "binary":
            width = row.max_length // (2 if row.type.startswith("n") else 1)
            return "(max)" if row.max_length == -1 else f"({width})"
        case "datetime2" | "datetimeoffset" | "time":
            return f"({row.scale})"
        case "decimal" | "numeric":
            return f"({row.precision}, {row.scale})"
    return ""


def _check(row: Any) -> tuple[str, str]:
    return f"constraint {row.name}", _joined(
        f"check {comparisons(row.definition)}",
        row.is_disabled and "disabled",
        row.is_not_trusted and "not trusted",
    )


def _index(row: Any) -> tuple[str, str]:
    kind = "constraint" if row.is_primary_key or row.is_unique_constraint else "index"
    return f"{kind} {row.name}", _joined(
        "primary key" if row.is_primary_key else row.is_unique and "unique",
        f"{row.type_desc.lower()} ({row.keys})",
        row.included and f"include ({row.included})",
        row.filter_definition and f"where {comparisons(row.filter_definition)}",
        not row.allow_page_locks and "without page locks",
        not row.allow_row_locks and "without row locks",
        row.ignore_dup_key and "ignore_dup_key",
        row.is_disabled and "disabled",
    )


def _grant(row: Any) -> tuple[str, str]:
    kind = {"D": "deny", "R": "revoke"}.get(row.state, "grant")
    where = f"{row.name}.{row.column}" if row.column else row.name
    return (
        f"{kind} {row.permission} on {where} to {row.grantee}",
        "with grant option" if row.state == "W" else "",
    )


def _joined(*parts: str | bool | None) -> str:
    return " ".join(part for part in parts if isinstance(part, str) and part)


#: The queries, and the function that describes a row of each query.
DESCRIBED: dict[str, Callable[[Any], tuple[str, str]]] = {
    SCHEMAS_QUERY: _schema,
    OBJECTS: _object,
    COLUMNS_QUERY: _column,
    CHECKS_QUERY: _check,
    INDEXES_QUERY: _index,
    TYPES_QUERY: lambda row: (f"type {row.name}", ""),
    GRANTS: _grant,
    MEMBERS: lambda row: (f"member {row.name}", ""),
}


def expected(connection: Any) -> dict[str, str]:
    """The definitions of this release, for the collation of this database."""
    collation = str(connection.execute(COLLATION).fetchval())
    found = {
        name: definition.replace("database_default", collation)
        for name, definition in read_catalogue("sqlserver").items()
    }
    for script in all_files("sqlserver"):
        made = re.search(r"^create or alter (\w+) (rowlease\w*\.\w+)", script.body, re.MULTILINE)
        if made is not None:
            kind = made[1] if made[1] in ("view", "trigger") else "routine"
            found[f"{kind} {made[2]}"] = module(script.body)
    return found


def module(text: str) -> str:
    """The fingerprint of a routine, view or trigger, without its header.

    SQL Server stores the batch, but with CREATE in place of CREATE OR ALTER and ALTER.
    """
    code = re.sub(r"\A(\s*--[^\n]*\n)*\s*", "", text)
    code = re.sub(r"\A(create\s+or\s+alter|create|alter)\s", "create ", code, flags=re.IGNORECASE)
    return fingerprint(" ".join(code.split()))


def comparisons(expression: str) -> str:
    """The comparisons in an expression, in a form that is the same for equivalent spellings.

    SQL Server rewrites a CHECK, a filter, a default and a computed column. It adds brackets around
    names and parentheses around numbers. It replaces `a in (1, 2)` by `a = 2 or a = 1`, BETWEEN by
    two comparisons, and CAST by CONVERT. The result does not show how AND, OR and parentheses
    combine the comparisons.
    """
    texts: list[str] = []

    def keep(match: re.Match[str]) -> str:
        texts.append(match[1])
        return f" ${len(texts) - 1} "

    code = re.sub(r"(?:\bN)?('(?:[^']|'')*')", keep, expression).lower()
    code = re.sub(r"[\[\](),]", " ", code.replace("].[", "."))
    code = re.sub(r"<>|!=|[<>]=|[-=<>*/+]", lambda found: f" {found[0]} ", code).replace("!=", "<>")
    code = " ".join(code.split())
    for pattern, instead in RESPELT:
        code = re.sub(pattern, instead, code)
    code = re.sub(r"(\w+) in((?: [$\d]\S*)+)", _as_equations, code)
    found = re.split(r" (?:and|or) ", code)
    return ", ".join(
        sorted({re.sub(r"\$(\d+)", lambda kept: texts[int(kept[1])], one) for one in found})
    )


def _as_equations(found: re.Match[str]) -> str:
    return " or ".join(f"{found[1]} = {value}" for value in found[2].split())
