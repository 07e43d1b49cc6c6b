-- now: a clock that stands still, in a test's own database.
-- params:   none
-- returns:  timestamptz
-- errors:   none
-- locks:    none
-- why:      rowlease.testing replaces the routine by this one, a time in place of the braces, and
--           puts the other back. It must own the schema to do so; nothing that is installed can be
--           told the time, and `rowlease migrate` never looks into this folder.
create or replace function rowlease.now() returns timestamptz
language sql volatile
return timestamptz '{time}';
