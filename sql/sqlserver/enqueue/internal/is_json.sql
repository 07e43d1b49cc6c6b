-- is_json: test whether a text is one JSON value.
-- params:   p_text nvarchar(max)
-- returns:  bit -- 1 for null
-- errors:   none
-- locks:    none
-- why:      before SQL Server 2022, isjson accepts only objects and arrays. A number or a string
--           is JSON if an array of it is.
create or alter function rowlease_internal.is_json(@p_text nvarchar(max)) returns bit
as
begin
  if @p_text is null or isjson(@p_text) = 1
    return 1;
  if isjson(concat(N'[', @p_text, N']')) = 1
     and (select count(*) from openjson(concat(N'[', @p_text, N']'))) = 1
    return 1;
  return 0;
end;
