-- add_staged: move the rows of a load into queue, except those whose dedup keys are taken.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load
-- returns:  bigint -- how many are new; the others have the dedup key of a live request or an
--           earlier row of the load
-- errors:   none
-- locks:    rows of queue with the same dedup key while their enqueue is not committed; as
--           unblock_groups
-- why:      if a duplicate was the first of its group, nothing else would unblock the next request, so
--           this routine does.
create or replace function rowlease_internal.add_staged(
  p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_added  bigint;
  v_groups text[];
begin
  with added as (
    insert into rowlease.queue (
      queue_name, kind, status, priority, requested_time, due_time, max_attempts, dedup_key,
      group_key, group_blocked, load_id, payload, headers)
    select p_settings.queue_name, r.kind,
           case when r.due_time > p_now then 'Scheduled' else 'Pending' end,
           least(r.priority, p_settings.max_priority), p_now, greatest(r.due_time, p_now),
           p_settings.max_attempts, r.dedup_key, r.group_key,
           r.group_key is not null
             and row_number() over (partition by r.group_key order by r.part, r.request_id) > 1,
           p_load.load_id, r.payload, r.headers
      from rowlease.lane_part p
      join rowlease.lane r
        on r.run_number = p.run_number and r.writer = p.writer and r.priority = p.priority
       and r.part = p.part and r.request_id >= p.first_id and r.request_id <= p.last_id
     where p.run_number = p_load.run_number
     order by r.part, r.request_id
    on conflict (queue_name, dedup_key) where dedup_key is not null and status <> 'Failed'
    do nothing
    returning priority, status),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
    select p_settings.queue_name, a.priority, p_load.load_id,
           count(*) filter (where a.status = 'Scheduled'),
           count(*) filter (where a.status = 'Pending')
      from added a group by a.priority
    returning scheduled, pending)
  select coalesce(sum(c.scheduled + c.pending), 0) into v_added from counted c;
  if v_added < (select sum(p.num_rows) from rowlease.lane_part p
                 where p.run_number = p_load.run_number) then
    v_groups := array(
      select distinct r.group_key
        from rowlease.lane_part p
        join rowlease.lane r
          on r.run_number = p.run_number and r.writer = p.writer and r.priority = p.priority
         and r.part = p.part and r.request_id >= p.first_id and r.request_id <= p.last_id
       where p.run_number = p_load.run_number and r.group_key is not null);
    perform rowlease_internal.unblock_groups(
      array_fill(p_settings.queue_name::text, array[cardinality(v_groups)]), v_groups, false);
  end if;
  return v_added;
end $$;
