-- next_event: find the next due time of a scheduled request or the next expiry of a lease in a queue.
-- params:   p_queue_name text, p_from timestamptz, p_until timestamptz
-- returns:  timestamptz -- from p_from to p_until; null if there is none
-- errors:   none
-- locks:    none
-- why:      no floor may be above this time: a request that is due or expired, but not yet changed
--           to Pending, may become Pending at any priority.
create or replace function rowlease_internal.next_event(
  p_queue_name text, p_from timestamptz, p_until timestamptz
) returns timestamptz
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
begin
  return least(
    (select q.due_time from rowlease.queue q
      where q.queue_name = p_queue_name and q.status = 'Scheduled'
        and q.due_time >= p_from and q.due_time <= p_until
      order by q.due_time limit 1),
    (select q.lock_expires_time from rowlease.queue q
      where q.queue_name = p_queue_name and q.status = 'Processing'
        and q.lock_expires_time >= p_from and q.lock_expires_time <= p_until
      order by q.lock_expires_time limit 1));
end $$;
