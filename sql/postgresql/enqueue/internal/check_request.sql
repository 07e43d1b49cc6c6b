-- check_request: refuse a request that no queue accepts.
-- params:   p_kind text, p_priority integer, p_payload text, p_max_attempts integer
-- returns:  boolean -- true
-- errors:   RL003 priority below 0, RL004 payload over 1 MiB or no object, RL006 no kind, RL007
--           attempts below 1
-- locks:    none
-- why:      one place for the limits, so that every way to enqueue has the same messages.
create or replace function rowlease_internal.check_request(
  p_kind text, p_priority integer, p_payload text, p_max_attempts integer
) returns boolean
language plpgsql volatile
as $$
begin
  if p_kind is null or p_kind = '' or length(p_kind) > 200 then
    raise exception using errcode = 'RL006',
      message = 'kind must be a task name of 1 to 200 characters';
  elsif p_priority < 0 then
    raise exception using errcode = 'RL003',
      message = format('priority is %s; it must be 0 or more, and bigger is more urgent', p_priority);
  elsif octet_length(p_payload) > 1048576 then
    raise exception using errcode = 'RL004',
      message = format('payload is %s bytes; the limit is 1048576. Store large data elsewhere and '
                       'enqueue a reference', octet_length(p_payload));
  elsif not rowlease_internal.are_arguments(p_payload) then
    raise exception using errcode = 'RL004',
      message = 'payload must be a JSON object of arguments by name, without half of a surrogate pair '
                '(\ud800 to \udfff)';
  elsif p_max_attempts < 1 then
    raise exception using errcode = 'RL007',
      message = format('max_attempts is %s; it must be 1 or more', p_max_attempts);
  end if;
  return true;
end $$;
