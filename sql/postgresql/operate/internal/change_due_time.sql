-- change_due_time: give waiting requests another due time.
-- params:   p_request_ids bigint[], p_now timestamptz, p_due_time timestamptz (now or earlier: now)
-- returns:  void
-- errors:   none
-- locks:    none: the caller has locked the rows
-- why:      a request that is already due keeps its place if it is due now. One that becomes due may be
--           below a floor, so it is marked as returned.
create or replace function rowlease_internal.change_due_time(
  p_request_ids bigint[], p_now timestamptz, p_due_time timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  with old as materialized (
    select q.request_id, q.queue_name, q.status, q.priority
      from unnest(p_request_ids) as u(id)
      join rowlease.queue q on q.request_id = any(array[u.id])
     where q.status || '' = 'Scheduled' or p_due_time > p_now),
  moved as (
    update rowlease.queue q
       set due_time = greatest(p_due_time, p_now), returned = p_due_time <= p_now,
           status = case when p_due_time > p_now then 'Scheduled' else 'Pending' end
      from old o where q.request_id = any(array[o.request_id]))
  insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
  select o.queue_name, o.priority,
         sum((p_due_time > p_now)::int - (o.status = 'Scheduled')::int),
         sum((p_due_time <= p_now)::int - (o.status = 'Pending')::int)
    from old o group by o.queue_name, o.priority
$$;
