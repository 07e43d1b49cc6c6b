-- oldest_due_time: find the due time of the oldest waiting request of a priority, without returned requests.
-- params:   p_queue_name text, p_priority integer, p_floor_time timestamptz, p_floor_id bigint
-- returns:  timestamptz -- null if nothing waits
-- errors:   none
-- locks:    none
-- why:      the policies weighted and aging need this time. It costs one probe of the index that
--           claims use.
create or replace function rowlease_internal.oldest_due_time(
  p_queue_name text, p_priority integer, p_floor_time timestamptz, p_floor_id bigint
) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
begin
  return (
    select q.due_time from rowlease.queue q
     where q.queue_name = p_queue_name and q.priority = p_priority and q.status = 'Pending'
       and not q.group_blocked and not q.returned
       and (q.due_time, q.request_id) >= (p_floor_time, p_floor_id)
     order by q.due_time, q.request_id limit 1);
end $$;
