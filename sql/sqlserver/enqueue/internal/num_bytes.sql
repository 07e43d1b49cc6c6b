-- num_bytes: count the bytes of a text in UTF-8.
-- params:   p_text nvarchar(max)
-- returns:  bigint -- of a text that certainly fits, its length
-- errors:   none
-- locks:    none
-- why:      the limit of a payload is the same on both engines. A UTF-16 unit takes at most three
--           bytes, so that a short text need not be converted.
create or alter function rowlease_internal.num_bytes(@p_text nvarchar(max)) returns bigint
as
begin
  if coalesce(datalength(@p_text), 0) / 2 * 3 <= 1048576
    return datalength(@p_text) / 2;
  return datalength(cast(@p_text collate Latin1_General_100_BIN2_UTF8 as varchar(max)));
end;
