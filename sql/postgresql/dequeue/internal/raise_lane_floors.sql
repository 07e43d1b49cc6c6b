-- raise_lane_floors: move the start of the scans of some loads past the rows that have left the lane.
-- params:   p_loads rowlease.load[]
-- returns:  void
-- errors:   none
-- locks:    as raise_lane_floor
-- why:      both claims that found too few requests and housekeeping call it.
create or replace function rowlease_internal.raise_lane_floors(p_loads rowlease.load[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
begin
  perform rowlease_internal.raise_lane_floor(b.run_number, b.priority)
     from (select distinct p.run_number, p.priority
             from unnest(p_loads) l join rowlease.lane_part p on p.run_number = l.run_number) b;
end $$;
