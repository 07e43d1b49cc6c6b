-- first_of_block: lock the first requests of a block of the lane.
-- params:   p_run_number bigint, p_priority smallint, p_limit integer
-- returns:  tid[] -- rows of lane, in claim order
-- errors:   none
-- locks:    rows of lane, exclusive, in claim order, skipping locked ones
-- why:      for the careful way to claim. As dequeue, it moves the start of the block's scans when it
--           has stepped over many rows that are gone, or found too few: a block that is used up is then
--           not looked at again.
create or replace function rowlease_internal.first_of_block(
  p_run_number bigint, p_priority smallint, p_limit integer
) returns tid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_stepped bigint := rowlease_internal.num_stepped_over_in_lane();
  v_rows    tid[];
begin
  v_rows := array(
    select r.tid
      from (select b.part, b.first_id from rowlease.lane_part b
             where b.run_number = p_run_number and b.priority = p_priority
             order by b.part) b
     cross join lateral (
       select y.ctid as tid from rowlease.lane y
        where y.run_number = p_run_number and y.priority = p_priority
          and y.part = b.part and y.request_id >= b.first_id
        order by y.request_id for update skip locked) r
     limit p_limit);
  if cardinality(v_rows) < p_limit
     or rowlease_internal.num_stepped_over_in_lane() - v_stepped > greatest(1000, 5 * p_limit) then
    perform rowlease_internal.raise_lane_floor(p_run_number, p_priority);
  end if;
  return v_rows;
end $$;
