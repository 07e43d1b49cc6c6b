-- time_text: format a time as PostgreSQL does.
-- params:   p_time datetime2(6)
-- returns:  nvarchar(32) -- 2026-01-01 12:00:00+00, with as many decimals as the time has
-- errors:   none
-- locks:    none
-- why:      both engines have the same messages.
create or alter function rowlease_internal.time_text(@p_time datetime2(6)) returns nvarchar(32)
as
begin
  declare @text nvarchar(32) = convert(nvarchar(26), @p_time, 121);
  if charindex(N'.', @text) > 0
  begin
    while right(@text, 1) = N'0'
      set @text = left(@text, len(@text) - 1);
    if right(@text, 1) = N'.'
      set @text = left(@text, len(@text) - 1);
  end;
  return @text + N'+00';
end;
