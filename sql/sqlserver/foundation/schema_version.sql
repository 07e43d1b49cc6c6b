-- schema_version: the revision of this database's tables, and the oldest client that works with it.
-- params:   none
create or alter procedure rowlease.schema_version
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select v.version_num as revision, i.OldestClient as oldest_client
  from rowlease.alembic_version as v cross join rowlease.SchemaInfo as i;
