-- schema_version: the revision of this database's tables, and the oldest client that works with it.
-- params:   none
-- returns:  revision text, oldest_client text
-- errors:   none
-- locks:    none
-- why:      every client calls this before any other routine, whatever tables its role may read. A
--           client of revision oldest_client or later works with this schema, so workers of the
--           last release keep running during and after a migration to a newer one.
create or replace function rowlease.schema_version()
returns table (revision text, oldest_client text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select v.version_num::text, i.oldest_client::text
        from rowlease.alembic_version v cross join rowlease.schema_info i $$;
