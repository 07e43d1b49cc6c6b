-- first_returned: find when the oldest returned request of each priority was due.
-- params:   p_queue_name text, p_max_priority integer
-- returns:  priority integer, due_time timestamptz -- only priorities with a returned request
-- errors:   none
-- locks:    none
-- why:      usually the queue has no returned requests, and finding that out costs one probe.
create or replace function rowlease_internal.first_returned(p_queue_name text, p_max_priority integer)
returns table (priority integer, due_time timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
#variable_conflict use_column
begin
  perform from rowlease.queue q
    where q.queue_name = p_queue_name and q.status = 'Pending'
      and not q.group_blocked and q.returned
    limit 1;
  if not found then
    return;
  end if;
  return query
  select p.priority, r.due_time
    from generate_series(0, p_max_priority) as p(priority)
   cross join lateral (
     select q.due_time from rowlease.queue q
      where q.queue_name = p_queue_name and q.priority = p.priority and q.status = 'Pending'
        and not q.group_blocked and q.returned
      order by q.due_time, q.request_id limit 1) r;
end $$;
