-- schema_version: the migration that this database's tables are at.
-- params:   none
-- returns:  text
-- errors:   none
-- locks:    none
-- why:      every client asks before its first call, whatever its role may read.
create or replace function rowlease.schema_version() returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$ select v.version_num::text from rowlease.alembic_version v $$;
