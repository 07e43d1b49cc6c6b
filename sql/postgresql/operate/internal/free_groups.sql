-- free_groups: unblock the first request of each group from which an earlier request was deleted by hand.
-- params:   p_queue_names text[]
-- returns:  queue_name text, priority integer -- of each request that was unblocked
-- errors:   none
-- locks:    rows of queue, exclusive, skipping locked ones
-- why:      the routines unblock the next request when they remove one (unblock_groups); a DELETE
--           or UPDATE by hand does not. A claim checks the group again.
create or replace function rowlease_internal.free_groups(p_queue_names text[])
returns table (queue_name text, priority integer)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_queues text[] := '{}';
  v_name   text;
begin
  for queue_name, priority in
    with first as materialized (
      select distinct on (q.queue_name, q.group_key) q.request_id, q.group_blocked
        from rowlease.queue q
       where q.queue_name = any(p_queue_names) and q.group_key is not null and q.status <> 'Failed'
       order by q.queue_name, q.group_key, q.request_id),
    held as materialized (
      select q.request_id from first f join rowlease.queue q on q.request_id = any(array[f.request_id])
       where f.group_blocked and q.group_blocked
         for no key update of q skip locked)
    update rowlease.queue q
       set group_blocked = false, returned = q.returned or q.status = 'Pending'
      from held h
     where q.request_id = any(array[h.request_id]) and q.group_blocked
    returning q.queue_name, q.priority
  loop
    v_queues := v_queues || queue_name;
    return next;
  end loop;
  foreach v_name in array array(select distinct u.name from unnest(v_queues) as u(name)) loop
    perform rowlease_internal.wake_workers(v_name, false);
  end loop;
end $$;
