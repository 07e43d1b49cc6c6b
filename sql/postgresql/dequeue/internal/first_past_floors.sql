-- first_past_floors: find the due time of the oldest request that no floor hides, for each priority.
-- params:   p_queue_name text, p_max_priority integer
-- returns:  priority integer, due_time timestamptz -- only priorities with such a request
-- errors:   none
-- locks:    none
-- why:      no floor hides returned requests and those in the lane. Usually the queue has neither,
--           and finding that out costs one probe of each index. It uses a limit instead of exists,
--           because a semi-join may read the whole lane.
create or replace function rowlease_internal.first_past_floors(p_queue_name text, p_max_priority integer)
returns table (priority integer, due_time timestamptz)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform from rowlease.queue q
    where q.queue_name = p_queue_name and q.status = 'Pending'
      and not q.group_blocked and q.returned
    limit 1;
  if found then
    return query
      select p.priority, r.due_time
        from generate_series(0, p_max_priority) as p(priority)
       cross join lateral (
         select q.due_time from rowlease.queue q
          where q.queue_name = p_queue_name and q.priority = p.priority and q.status = 'Pending'
            and not q.group_blocked and q.returned
          order by q.due_time, q.request_id limit 1) r;
  end if;
  return query
    select p.priority, l.promoted_time
      from rowlease.load l cross join generate_series(0, p_max_priority) as p(priority)
     cross join lateral (
       select from rowlease.lane_part b
        cross join lateral (
          select from rowlease.lane r
           where r.run_number = b.run_number and r.writer = b.writer
             and r.priority = b.priority and r.part = b.part
             and r.request_id >= b.first_id and r.request_id <= b.last_id
           limit 1) r
        where b.run_number = l.run_number and b.priority = p.priority
        limit 1) f
     where l.queue_name = p_queue_name and l.in_lane;
end $$;
