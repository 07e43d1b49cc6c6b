-- check_headers: refuse headers that are not a small JSON object of strings.
-- params:   p_headers text
-- returns:  boolean -- true, also for null
-- errors:   RL016 bad headers; 22P02 text that is not JSON
-- locks:    none
-- why:      a claim returns the headers of each request, so they must be small, and programs in any
--           language must be able to read them.
create or replace function rowlease_internal.check_headers(p_headers text) returns boolean
language plpgsql immutable
as $$
begin
  if octet_length(p_headers) > 8192 or not rowlease_internal.are_arguments(p_headers)
     or exists (select from json_each(p_headers::json) h where json_typeof(h.value) <> 'string') then
    raise exception using errcode = 'RL016',
      message = 'headers must be a JSON object of strings, of at most 8192 bytes';
  end if;
  return true;
end $$;
