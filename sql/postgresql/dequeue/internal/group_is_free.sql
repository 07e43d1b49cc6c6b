-- group_is_free: test whether a request of a group may be claimed.
-- params:   p_queue_name text, p_group_key text, p_request_id bigint
-- returns:  boolean
-- errors:   none
-- locks:    none
-- why:      requests of a group run in order, one at a time. The test is two index probes, because
--           a group may have many waiting requests.
create or replace function rowlease_internal.group_is_free(
  p_queue_name text, p_group_key text, p_request_id bigint
) returns boolean
language plpgsql stable
as $$
begin
  return not exists (
    select from rowlease.queue g
     where g.queue_name = p_queue_name and g.group_key = p_group_key and g.status <> 'Failed'
       and g.request_id < p_request_id)
  and not exists (
    select from rowlease.queue g
     where g.queue_name = p_queue_name and g.group_key = p_group_key and g.status = 'Processing');
end $$;
