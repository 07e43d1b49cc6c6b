-- now: the database's clock, the only one that rowlease uses.
-- params:   none
-- returns:  datetime2(6) -- UTC
-- errors:   none
-- locks:    none
-- why:      one place to read the clock from; tests replace this routine to freeze it.
create or alter function rowlease.now() returns datetime2(6)
as
begin
  return sysutcdatetime();
end;
