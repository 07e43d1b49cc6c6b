-- lower_priorities: lower the priority of waiting requests to their queue's maximum.
-- params:   p_queue_name text, p_max_priority integer, p_limit integer
-- returns:  void
-- errors:   none
-- locks:    as bring_in_high; rows of queue, exclusive, skipping locked ones
-- why:      an enqueue or a promote that commits after the maximum was lowered may leave a request
--           at a priority no claim reads. Usually there is none, and checking costs three index
--           probes. A request in the lane is first moved into queue.
create or replace function rowlease_internal.lower_priorities(
  p_queue_name text, p_max_priority integer, p_limit integer
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  perform rowlease_internal.bring_in_high(p_queue_name, p_max_priority, p_limit);
  with high as materialized (
    select f.* from (
      select q.request_id, q.priority from rowlease.queue q
       where q.queue_name = p_queue_name and q.priority > p_max_priority and q.status = 'Pending'
         and not q.group_blocked and not q.returned
       limit p_limit for no key update skip locked) f
    union all
    select r.* from (
      select q.request_id, q.priority from rowlease.queue q
       where q.queue_name = p_queue_name and q.priority > p_max_priority and q.status = 'Pending'
         and not q.group_blocked and q.returned
       limit p_limit for no key update skip locked) r),
  lowered as (
    update rowlease.queue q set priority = p_max_priority, returned = true
      from high h where q.request_id = any(array[h.request_id]))
  insert into rowlease.queue_depth (queue_name, priority, pending)
  select p_queue_name, c.priority, sum(c.pending)
    from (select h.priority, -1 as pending from high h
          union all select p_max_priority, 1 from high h) c
   group by c.priority;
end $$;
