-- schema_version: the revision of this database's tables, and the oldest client that works with it.
-- params:   none
-- returns:  revision text, oldest_client text
-- errors:   none
-- locks:    none
-- why:      every client calls this before any other routine, whatever tables its role may read. A
--           client of revision oldest_client or later works with this schema, so workers of the
--           last release keep running during and after a migration to a newer one.
create or alter procedure rowlease.schema_version
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select v.version_num as revision, i.OldestClient as oldest_client
  from rowlease.alembic_version as v cross join rowlease.SchemaInfo as i;
