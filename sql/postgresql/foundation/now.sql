-- now: the database's clock, the only one that rowlease uses.
-- params:   none
-- returns:  timestamptz
-- errors:   none
-- locks:    none
-- why:      one place to read the clock from; tests replace this routine to freeze it.
create or replace function rowlease.now() returns timestamptz
language sql volatile
return clock_timestamp();
