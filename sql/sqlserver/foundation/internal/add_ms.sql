-- add_ms: add milliseconds to a time.
-- params:   p_time datetime2(6), p_ms bigint
-- returns:  datetime2(6) -- null if either argument is null
-- errors:   517 the time is past the end of the calendar
-- locks:    none
-- why:      dateadd takes an int, which covers only 25 days of milliseconds; a delay may be years.
create or alter function rowlease_internal.add_ms(@p_time datetime2(6), @p_ms bigint) returns datetime2(6)
as
begin
  return dateadd(millisecond, cast(@p_ms % 86400000 as int),
                 dateadd(day, cast(@p_ms / 86400000 as int), @p_time));
end;
