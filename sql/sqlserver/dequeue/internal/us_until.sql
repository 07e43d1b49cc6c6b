-- us_until: compute the microseconds between two times.
-- params:   p_from datetime2(6), p_until datetime2(6)
-- returns:  bigint -- below 0 if p_until comes first
-- errors:   none
-- locks:    none
-- why:      one name for both engines' difference of two times.
create or alter function rowlease_internal.us_until(@p_from datetime2(6), @p_until datetime2(6))
returns bigint
as
begin
  return datediff_big(microsecond, @p_from, @p_until);
end;
