-- now: the database's clock, the only one that rowlease uses.
-- params:   none
-- returns:  datetime2(6) -- UTC
create or alter function rowlease.now() returns datetime2(6)
as
begin
  return sysutcdatetime();
end;
