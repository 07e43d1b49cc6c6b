-- count_lane: count the rows of a load in the lane as waiting requests of its queue.
-- params:   p_settings rowlease.queue_settings, p_load rowlease.load
-- returns:  void
-- errors:   none
-- locks:    none -- promote holds the load's row, so no other call has these rows
-- why:      promote knows the numbers from lane_part. Rows are written only if the queue's maximum is
--           below their priority, which writers avoid by clamping.
create or replace function rowlease_internal.count_lane(
  p_settings rowlease.queue_settings, p_load rowlease.load
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  with high as (
    delete from rowlease.lane_part p
     where p.run_number = p_load.run_number and p.priority > p_settings.max_priority
    returning p.*),
  lowered as (
    update rowlease.lane r set priority = p_settings.max_priority
      from high h
     where r.run_number = p_load.run_number and r.writer = h.writer
       and r.priority = h.priority and r.part = h.part
       and r.request_id >= h.first_id and r.request_id <= h.last_id)
  insert into rowlease.lane_part as p (run_number, priority, part, writer, num_rows, first_id, last_id)
  select p_load.run_number, p_settings.max_priority, h.part, h.writer, sum(h.num_rows),
         min(h.first_id), max(h.last_id)
    from high h group by h.part, h.writer
  on conflict (run_number, priority, part) do update
     set num_rows = p.num_rows + excluded.num_rows,
         first_id = least(p.first_id, excluded.first_id),
         last_id = greatest(p.last_id, excluded.last_id);
  insert into rowlease.queue_depth (queue_name, priority, load_id, pending)
  select p_settings.queue_name, p.priority, p_load.load_id, sum(p.num_rows)
    from rowlease.lane_part p where p.run_number = p_load.run_number group by p.priority;
end $$;
