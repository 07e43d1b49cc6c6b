-- bring_in_high: move requests with a priority above a queue's maximum from the lane into queue.
-- params:   p_queue_name text, p_max_priority integer, p_limit integer (null: all)
-- returns:  void
-- errors:   none
-- locks:    rows of lane, exclusive, skipping locked ones
-- why:      the callers then lower their priorities there. Usually there is none, and that costs one
--           probe of an index for each load in the lane. A row that is locked is being claimed, or is
--           brought in by another; claims lower the priority of what is left.
create or replace function rowlease_internal.bring_in_high(
  p_queue_name text, p_max_priority integer, p_limit integer
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_rows tid[] := array(
    select r.ctid from rowlease.load l
      join rowlease.lane_part p on p.run_number = l.run_number
      join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                          and r.priority = p.priority and r.part = p.part
                          and r.request_id >= p.first_id and r.request_id <= p.last_id
     where l.queue_name = p_queue_name and l.in_lane and p.priority > p_max_priority
     limit p_limit for update of r skip locked);
begin
  if v_rows <> '{}' then
    perform rowlease_internal.bring_in(v_rows);
  end if;
end $$;
