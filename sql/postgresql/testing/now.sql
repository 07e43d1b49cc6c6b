-- now: a stopped clock, for a test database.
-- params:   none
-- returns:  timestamptz
-- errors:   none
-- locks:    none
-- why:      rowlease.testing replaces the routine `now` with this one, with a time in place of the
--           braces, and restores it afterwards. Its user must own the schema. Installed routines
--           do not accept a time, and `rowlease migrate` ignores this folder.
create or replace function rowlease.now() returns timestamptz
language sql volatile
return timestamptz '{time}';
