-- are_headers: test whether a text is a small JSON object of strings.
-- params:   p_headers nvarchar(max)
-- returns:  bit -- 1 for null
-- errors:   none
-- locks:    none
-- why:      a claim returns the headers of each request, so they must be small, and programs in any
--           language must be able to read them. In openjson, type 1 is a string. A UTF-16
--           unit takes at most three bytes of UTF-8, so a short text is not converted.
create or alter function rowlease_internal.are_headers(@p_headers nvarchar(max)) returns bit
as
begin
  if @p_headers is null
    return 1;
  if isjson(@p_headers) = 0 or left(ltrim(@p_headers), 1) <> N'{'
     or datalength(@p_headers) > 2730 * 2
        and datalength(cast(@p_headers collate Latin1_General_100_BIN2_UTF8 as varchar(max))) > 8192
    return 0;
  if exists (select 1 from openjson(@p_headers) as h where h.type <> 1)
    return 0;
  return 1;
end;
