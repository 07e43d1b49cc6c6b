-- num_bytes: count the bytes of a text in UTF-8.
-- params:   p_text nvarchar(max)
-- returns:  bigint -- for a text that certainly fits, its length in characters
-- errors:   none
-- locks:    none
-- why:      the limit of a payload is the same on both engines. A UTF-16 unit takes at most three
--           bytes of UTF-8, so a short text does not have to be converted.
create or alter function rowlease_internal.num_bytes(@p_text nvarchar(max)) returns bigint
as
begin
  if coalesce(datalength(@p_text), 0) / 2 * 3 <= 1048576
    return datalength(@p_text) / 2;
  return datalength(cast(@p_text collate Latin1_General_100_BIN2_UTF8 as varchar(max)));
end;
