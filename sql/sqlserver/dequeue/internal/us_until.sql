-- us_until: compute the microseconds between two times.
-- params:   p_from datetime2(6), p_until datetime2(6)
-- returns:  bigint -- below 0 if p_until comes first
-- errors:   none
-- locks:    none
-- why:      datediff gives an int, which is 36 minutes of microseconds.
create or alter function rowlease_internal.us_until(@p_from datetime2(6), @p_until datetime2(6))
returns bigint
as
begin
  declare @days int = datediff(day, @p_from, @p_until);
  declare @rest datetime2(6) = dateadd(day, -@days, @p_until);
  declare @seconds int = datediff(second, @p_from, @rest);
  return (cast(@days as bigint) * 86400 + @seconds) * 1000000
         + datepart(microsecond, @p_until) - datepart(microsecond, @p_from);
end;
