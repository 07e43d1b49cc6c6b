-- schema_version: the migration that this database's tables are at.
-- params:   none
-- returns:  text
-- errors:   none
-- locks:    none
-- why:      every client asks before its first call, whatever its role may read.
create or alter procedure rowlease.schema_version
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select v.version_num as schema_version from rowlease.alembic_version as v;
