-- array_of: make a JSON array of one text.
-- params:   p_text nvarchar(max)
-- returns:  nvarchar(max) -- [null] for null
-- errors:   none
-- locks:    none
-- why:      routines for arrays can then be used for one value.
create or alter function rowlease_internal.array_of(@p_text nvarchar(max)) returns nvarchar(max)
as
begin
  return N'[' + coalesce(N'"' + string_escape(@p_text, 'json') + N'"', N'null') + N']';
end;
