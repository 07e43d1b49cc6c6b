"""Reads the definitions of rowlease's objects from a database.

The expected definitions are in sql/postgresql/catalogue.json; a test compares that file with a
fresh database. `rowlease migrate --check` requires only the right to connect, because every user
can read PostgreSQL's catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import psycopg

from rowlease.store.differences import fingerprint

#: The history's partitions. `maintain` creates one for each day, so databases differ in them.
DAILY = r"^queue_history_\d{8}"
SCHEMAS = ["rowlease", "rowlease_internal"]

#: The indexes, as in QUERIES.
INDEXES = """
select 'index', n.nspname || '.' || c.relname,
       pg_get_indexdef(i.indexrelid) || case when i.indisvalid then '' else ' invalid' end
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
  join pg_class t on t.oid = i.indrelid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any(%(schemas)s) and t.relname !~ %(daily)s"""

#: Each query returns the kind, name and definition of objects. Some versions of PostgreSQL write
#: the table before a column's name; `plain` removes the table.
QUERIES = (
    """
    select 'schema', n.nspname, 'owner ' || pg_get_userbyid(n.nspowner)
      from pg_namespace n where n.nspname = any(%(schemas)s)""",
    """
    select case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
           n.nspname || '.' || c.relname,
           concat_ws(', ', 'owner ' || pg_get_userbyid(c.relowner),
                     case c.relpersistence when 'u' then 'unlogged' end,
                     'partitioned by ' || pg_get_partkeydef(c.oid),
                     pg_get_expr(c.relpartbound, c.oid),
                     (select string_agg(o, ' ' order by o) from unnest(c.reloptions) o),
                     case when c.relkind in ('r', 'p')
                          then 'replica identity ' || c.relreplident::text end,
                     case when c.relrowsecurity or c.relforcerowsecurity
                          then 'row level security' end,
                     case c.relkind when 'v' then pg_get_viewdef(c.oid) end)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p', 'v', 'S')
       and c.relname !~ %(daily)s""",
    """
    select 'column', n.nspname || '.' || c.relname || '.' || a.attname,
           concat_ws(' ', format_type(a.atttypid, a.atttypmod),
                     case when a.attnotnull then 'not null' end,
                     case a.attidentity when '' then null else 'identity' end,
                     case a.attgenerated when '' then null else 'generated' end,
                     'default ' || pg_get_expr(d.adbin, d.adrelid))
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid
      join pg_namespace n on n.oid = c.relnamespace
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where n.nspname = any(%(schemas)s) and c.relkind in ('r', 'p', 'v')
       and a.attnum > 0 and not a.attisdropped and c.relname !~ %(daily)s""",
    # PostgreSQL 18 also lists NOT NULL here, which the query for columns already has.
    """
    select 'constraint', n.nspname || '.' || r.relname || '.' || c.conname,
           pg_get_constraintdef(c.oid) || case when c.convalidated then '' else ' not valid' end
      from pg_constraint c
      join pg_class r on r.oid = c.conrelid
      join pg_namespace n on n.oid = r.relnamespace
     where n.nspname = any(%(schemas)s) and c.contype <> 'n' and r.relname !~ %(daily)s""",
    """
    select 'domain', n.nspname || '.' || t.typname,
           concat_ws(' ', 'owner ' || pg_get_userbyid(t.typowner),
                     format_type(t.typbasetype, t.typtypmod),
                     case when t.typnotnull then 'not null' end,
                     'default ' || t.typdefault,
                     (select string_agg(c.conname || ' ' || pg_get_constraintdef(c.oid)
                                        || case when c.convalidated then '' else ' not valid' end,
                                        ' ' order by c.conname)
                        from pg_constraint c where c.contypid = t.oid and c.contype <> 'n'))
      from pg_type t join pg_namespace n on n.oid = t.typnamespace
     where n.nspname = any(%(schemas)s) and t.typtype = 'd'""",
    INDEXES,
    """
    select 'trigger', n.nspname || '.' || c.relname || '.' || t.tgname,
           pg_get_triggerdef(t.oid) || case t.tgenabled when 'O' then '' else ' not enabled' end
      from pg_trigger t
      join pg_class c on c.oid = t.tgrelid
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any(%(schemas)s) and not t.tgisinternal""",
    """
    select 'routine', n.nspname || '.' || p.proname,
           concat_ws(e'\\n', 'owner ' || pg_get_userbyid(p.proowner),
                     pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                     l.lanname, p.provolatile, p.proparallel, p.proisstrict, p.prosecdef,
                     p.proconfig::text, p.prosrc, pg_get_function_sqlbody(p.oid))
      from pg_proc p
      join pg_namespace n on n.oid = p.pronamespace
      join pg_language l on l.oid = p.prolang
     where n.nspname = any(%(schemas)s)""",
    # The owner's own rights are left out, because they depend on the version of PostgreSQL. So are
    # those of readers on partitions of the history, which a migration grants and `maintain` not.
    """
    select 'grant', lower(g.privilege_type) || ' on ' || o.name || ' to '
                    || case g.grantee when 0 then 'public' else pg_get_userbyid(g.grantee) end,
           case when g.is_grantable then 'with grant option' else '' end
      from (select n.nspname || '.' || c.relname as name, c.relacl as acl, c.relowner as owner
              from pg_class c join pg_namespace n on n.oid = c.relnamespace
             where n.nspname = any(%(schemas)s)
            union all
            select n.nspname || '.' || c.relname || '.' || a.attname, a.attacl, c.relowner
              from pg_attribute a
              join pg_class c on c.oid = a.attrelid
              join pg_namespace n on n.oid = c.relnamespace
             where n.nspname = any(%(schemas)s)
            union all
            select n.nspname || '.' || p.proname || '()',
                   coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
              from pg_proc p join pg_namespace n on n.oid = p.pronamespace
             where n.nspname = any(%(schemas)s)
            union all
            select 'schema ' || n.nspname, n.nspacl, n.nspowner
              from pg_namespace n where n.nspname = any(%(schemas)s)) o
     cross join lateral aclexplode(o.acl) g
     where g.grantee <> o.owner
       and not (split_part(o.name, '.', 2) ~ %(daily)s and g.privilege_type = 'SELECT'
                and g.grantee in ('rowlease_reader'::regrole, 'rowlease_operator'::regrole))""",
)


def read(connection: psycopg.Connection, queries: Sequence[str] = QUERIES) -> dict[str, str]:
    """The definition of every object of rowlease's schemas; for a routine, its fingerprint."""
    found: dict[str, str] = {}
    given = {"schemas": SCHEMAS, "daily": DAILY}
    with connection.transaction():
        # With an empty search_path, PostgreSQL writes every name with its schema.
        connection.execute("set local search_path = ''")
        for query in queries:
            for kind, name, definition in connection.execute(query, given):
                text = plain(definition)
                if kind == "routine":
                    text = fingerprint(text)
                found[f"{kind} {name}"] = text
    return found


def plain(text: str) -> str:
    """The definition as every version of PostgreSQL writes it, without line breaks.

    Versions before 16 write the table before a column's name. Each version quotes the names that
    are its keywords.
    """
    without_tables = re.sub(r"\b(?!rowlease)[a-z_]\w*\.(?=\w)", "", text)
    without_quotes = re.sub(r'"([a-z_]\w*)"', r"\1", without_tables)
    return re.sub(r"\s+", " ", without_quotes).strip()
