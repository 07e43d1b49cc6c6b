-- are_arguments: test whether a text is a JSON object without half of a surrogate pair.
-- params:   p_payload nvarchar(max)
-- returns:  bit -- 1 for null
-- why:      a task takes arguments by name. isjson accepts one half of a pair (\ud800 to \udfff), which
--           is no character, and which most decoders refuse. Most payloads have no such escape. A
--           doubled backslash begins none.
create or alter function rowlease_internal.are_arguments(@p_payload nvarchar(max)) returns bit
as
begin
  declare @text nvarchar(max), @at bigint, @digit nchar(1);
  if @p_payload is null
    return 1;
  if isjson(@p_payload) = 0
     or left(ltrim(replace(replace(replace(left(@p_payload, 1000), nchar(9), N' '), nchar(10), N' '),
                           nchar(13), N' ')), 1) <> N'{'
    return 0;
  if charindex(N'\u', @p_payload) = 0
    return 1;
  set @text = lower(replace(@p_payload, N'\\', N'  ')) collate Latin1_General_100_BIN2;
  set @at = charindex(N'\ud', @text);
  while @at > 0
  begin
    set @digit = substring(@text, @at + 3, 1);
    if @digit in (N'8', N'9', N'a', N'b') and substring(@text, @at + 6, 3) = N'\ud'
       and substring(@text, @at + 9, 1) in (N'c', N'd', N'e', N'f')
      set @at = @at + 6;
    else if @digit in (N'8', N'9', N'a', N'b', N'c', N'd', N'e', N'f')
      return 0;
    set @at = charindex(N'\ud', @text, @at + 3);
  end;
  return 1;
end;
