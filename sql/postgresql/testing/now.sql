-- now: a stopped clock, for a test database.
-- params:   none
-- returns:  timestamptz
-- errors:   none
-- locks:    none
-- why:      rowlease.testing replaces the routine by this one, with a time for the braces, and
--           restores it afterwards. It must own the schema to do so. No installed routine takes a
--           time, and `rowlease migrate` ignores this folder.
create or replace function rowlease.now() returns timestamptz
language sql volatile
return timestamptz '{time}';
