-- sample_requests: sample the first requests of a queue in each of its indexes.
-- params:   p_queue_name text, p_limit integer -- the number of requests to read from each index
-- returns:  priority integer, status text, request_id bigint
-- errors:   none
-- locks:    none
-- why:      no index covers a whole queue, because every request would pay for it; the partial
--           indexes together cover the queue. Blocked requests have no index: they are searched
--           for among the first requests that have a group, so that a queue with many groups costs
--           no more than others.
create or replace function rowlease_internal.sample_requests(p_queue_name text, p_limit integer)
returns table (priority integer, status text, request_id bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select u.priority::integer, u.status::text, u.request_id from (
      (select q.priority, q.status, q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.status = 'Pending' and not q.group_blocked
          and not q.returned limit p_limit)
      union all
      (select q.priority, q.status, q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.status = 'Pending' and not q.group_blocked
          and q.returned limit p_limit)
      union all
      (select r.priority, 'Pending', r.request_id
         from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
         join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                             and r.priority = p.priority and r.part = p.part
                             and r.request_id >= p.first_id and r.request_id <= p.last_id
        where l.queue_name = p_queue_name and l.in_lane limit p_limit)
      union all
      (select g.priority, g.status, g.request_id
         from (select q.priority, q.status, q.request_id, q.group_blocked from rowlease.queue q
                where q.queue_name = p_queue_name and q.group_key is not null
                  and q.status <> 'Failed' limit greatest(p_limit, 100)) g
        where g.status = 'Pending' and g.group_blocked)
      union all
      (select q.priority, q.status, q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.status = 'Scheduled' limit p_limit)
      union all
      (select q.priority, q.status, q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.status = 'Processing' limit p_limit)
      union all
      (select q.priority, q.status, q.request_id from rowlease.queue q
        where q.queue_name = p_queue_name and q.status = 'Failed' limit p_limit)) u;
end $$;
