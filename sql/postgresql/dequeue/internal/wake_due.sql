-- wake_due: change due Scheduled requests to Pending.
-- params:   p_queue_name text, p_now timestamptz, p_from timestamptz, p_limit integer
-- returns:  integer -- how many moved
-- errors:   none
-- locks:    rows of queue, exclusive, in due order, skipping locked ones
-- why:      scheduled rows are not in the claim's index until they are due. The caller has already
--           checked that nothing before p_from is due.
create or replace function rowlease_internal.wake_due(
  p_queue_name text, p_now timestamptz, p_from timestamptz, p_limit integer
) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_moved integer;
begin
  with due as materialized (
    select q.request_id from rowlease.queue q
     where q.queue_name = p_queue_name and q.status = 'Scheduled'
       and q.due_time <= p_now and q.due_time >= p_from
     order by q.due_time
     limit p_limit
       for no key update skip locked),
  moved as (
    update rowlease.queue q set status = 'Pending', returned = false
      from due d where q.request_id = any(array[d.request_id]) and q.status || '' = 'Scheduled'
    returning q.priority),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, scheduled, pending)
    select p_queue_name, m.priority, -count(*), count(*) from moved m group by m.priority)
  select count(*) into v_moved from moved;
  return v_moved;
end $$;
