-- array_of: make a JSON array with one text.
-- params:   p_text nvarchar(max)
-- returns:  nvarchar(max) -- [null] for null
-- errors:   none
-- locks:    none
-- why:      this allows routines for arrays to be used for a single value.
create or alter function rowlease_internal.array_of(@p_text nvarchar(max)) returns nvarchar(max)
as
begin
  return N'[' + coalesce(N'"' + string_escape(@p_text, 'json') + N'"', N'null') + N']';
end;
