-- change_priority: give requests another priority, at most the maximum of their queue.
-- params:   p_request_ids bigint[], p_priority integer
-- returns:  void
-- errors:   none
-- locks:    none: the caller has locked the rows and the settings
-- why:      a request that waits may now be below a floor, so it is marked as returned.
create or replace function rowlease_internal.change_priority(p_request_ids bigint[], p_priority integer)
returns void
language sql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  with old as materialized (
    select q.request_id, q.queue_name, q.status, q.priority, least(p_priority, s.max_priority) as new
      from unnest(p_request_ids) as u(id)
      join rowlease.queue q on q.request_id = any(array[u.id])
      join rowlease.queue_settings s on s.queue_name = q.queue_name),
  moved as (
    update rowlease.queue q set priority = o.new, returned = q.returned or o.status = 'Pending'
      from old o where q.request_id = any(array[o.request_id]) and o.new <> o.priority)
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed)
  select c.queue_name, c.priority, coalesce(sum(c.sign) filter (where c.status = 'Scheduled'), 0),
         coalesce(sum(c.sign) filter (where c.status = 'Pending'), 0),
         coalesce(sum(c.sign) filter (where c.status = 'Processing'), 0),
         coalesce(sum(c.sign) filter (where c.status = 'Failed'), 0)
    from (select o.queue_name, o.priority, o.status, -1 as sign from old o where o.new <> o.priority
          union all
          select o.queue_name, o.new, o.status, 1 from old o where o.new <> o.priority) c
   group by c.queue_name, c.priority
$$;
