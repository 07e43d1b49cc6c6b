-- add_distinct: move the rows of a load into queue, if it has no groups and all its dedup keys are free.
-- params:   p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load
-- returns:  bigint -- how many; null: nothing was done, because the load has groups, or because a live
--           request or another row of the load has a row's dedup key
-- errors:   none
-- locks:    rows of queue with the same dedup key while their enqueue is not committed
-- why:      the fast form of add_staged. To test each key costs as much as to write it, and ON CONFLICT
--           writes every row in two steps. So the rows are inserted as if no key were live, and the
--           first conflict rolls the insert back; with many live keys, this conflict comes early.
--           RETURNING would write a million rows to a file, so they are counted in the lane.
create or replace function rowlease_internal.add_distinct(
  p_settings rowlease.queue_settings, p_now timestamptz, p_load rowlease.load
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_name  text;
  v_added bigint;
begin
  perform from rowlease.lane_part p
    cross join lateral (
      select from rowlease.lane r
       where r.run_number = p.run_number and r.writer = p.writer and r.priority = p.priority
         and r.part = p.part and r.request_id >= p.first_id and r.request_id <= p.last_id
         and r.group_key is not null
       limit 1) r
    where p.run_number = p_load.run_number;
  if found then
    return null;
  end if;
  insert into rowlease.queue (
    queue_name, kind, status, priority, requested_time, due_time, max_attempts, dedup_key, load_id,
    payload, headers)
  select p_settings.queue_name, r.kind,
         case when r.due_time > p_now then 'Scheduled' else 'Pending' end,
         least(r.priority, p_settings.max_priority), p_now, greatest(r.due_time, p_now),
         p_settings.max_attempts, r.dedup_key, p_load.load_id, r.payload, r.headers
    from rowlease.lane_part p
    join rowlease.lane r
      on r.run_number = p.run_number and r.writer = p.writer and r.priority = p.priority
     and r.part = p.part and r.request_id >= p.first_id and r.request_id <= p.last_id
   where p.run_number = p_load.run_number
   order by r.part, r.request_id;
  get diagnostics v_added = row_count;
  insert into rowlease.queue_depth (queue_name, priority, load_id, scheduled, pending)
  select p_settings.queue_name, least(r.priority, p_settings.max_priority), p_load.load_id,
         count(*) filter (where r.due_time > p_now),
         count(*) filter (where r.due_time > p_now is not true)
    from rowlease.lane_part p
    join rowlease.lane r
      on r.run_number = p.run_number and r.writer = p.writer and r.priority = p.priority
     and r.part = p.part and r.request_id >= p.first_id and r.request_id <= p.last_id
   where p.run_number = p_load.run_number
   group by 2;
  return v_added;
exception when unique_violation then
  get stacked diagnostics v_name = constraint_name;
  if v_name <> 'queue_dedup' then raise; end if;
  return null;
end $$;
