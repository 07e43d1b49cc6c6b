-- seconds_text: format a duration as PostgreSQL does.
-- params:   p_seconds bigint
-- returns:  nvarchar(40) -- 00:02:00, or 3 days 04:00:00
-- errors:   none
-- locks:    none
-- why:      both engines have the same messages.
create or alter function rowlease_internal.seconds_text(@p_seconds bigint) returns nvarchar(40)
as
begin
  declare @days bigint = @p_seconds / 86400, @rest int = @p_seconds % 86400;
  return concat(case when @days = 1 then N'1 day ' when @days > 1 then concat(@days, N' days ') end,
                right(concat(N'0', @rest / 3600), 2), N':',
                right(concat(N'0', @rest % 3600 / 60), 2), N':',
                right(concat(N'0', @rest % 60), 2));
end;
