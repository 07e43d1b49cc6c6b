"""What a database says of the schema `rowlease`: names and definitions, no numbers of its own."""

from __future__ import annotations

from typing import Any

import psycopg

#: Made by `maintain` for the day at hand: two databases differ in them around midnight.
DAILY = r"^queue_history_\d{8}"

QUERIES = {
    "schema": """
        select n.nspname, pg_get_userbyid(n.nspowner), n.nspacl::text
          from pg_namespace n where n.nspname = 'rowlease'""",
    "relations": """
        select c.relname, c.relkind, c.relpersistence, pg_get_userbyid(c.relowner),
               array(select unnest(c.reloptions) order by 1)::text,
               array(select unnest(c.relacl)::text order by 1)::text,
               pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid)
          from pg_class c
         where c.relnamespace = 'rowlease'::regnamespace and c.relname !~ %(daily)s""",
    "columns": """
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attidentity, a.attgenerated, a.attstorage, a.attcompression, a.attacl::text,
               pg_get_expr(d.adbin, d.adrelid)
          from pg_attribute a
          join pg_class c on c.oid = a.attrelid
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where c.relnamespace = 'rowlease'::regnamespace and c.relkind in ('r', 'p', 'v')
           and a.attnum > 0 and not a.attisdropped and c.relname !~ %(daily)s""",
    "constraints": """
        select c.conrelid::regclass::text, c.conname, pg_get_constraintdef(c.oid), c.convalidated
          from pg_constraint c
         where c.connamespace = 'rowlease'::regnamespace
           and c.conrelid::regclass::text !~ replace(%(daily)s, '^', '^rowlease.')""",
    "indexes": """
        select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), i.indisvalid
          from pg_index i join pg_class c on c.oid = i.indrelid
         where c.relnamespace = 'rowlease'::regnamespace and c.relname !~ %(daily)s""",
    "triggers": """
        select pg_get_triggerdef(t.oid), t.tgenabled
          from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = 'rowlease'::regnamespace and not t.tgisinternal""",
    "views": """
        select c.relname, pg_get_viewdef(c.oid)
          from pg_class c where c.relnamespace = 'rowlease'::regnamespace and c.relkind = 'v'""",
    "routines": """
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid), pg_get_userbyid(p.proowner),
               array(select unnest(p.proacl)::text order by 1)::text
          from pg_proc p where p.pronamespace = 'rowlease'::regnamespace""",
    "sequences": """
        select s.sequencename, s.sequenceowner, s.data_type::text, s.start_value, s.increment_by
          from pg_sequences s where s.schemaname = 'rowlease'""",
    "settings": "select to_json(s)::text from rowlease.queue_settings s",
    "revision": "select version_num from rowlease.alembic_version",
    "routines_hash": "select routines_hash from rowlease.schema_info",
}


def snapshot(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    """The schema as a database has it, in an order of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return {
            what: sorted(connection.execute(query, {"daily": DAILY}).fetchall(), key=str)
            for what, query in QUERIES.items()
        }
