-- raise_lane_floor: move the start of a block's scans past the rows that have left the lane.
-- params:   p_run_number bigint, p_priority smallint
-- returns:  void
-- errors:   none
-- locks:    rows of lane_part, exclusive, skipping locked ones
-- why:      an old snapshot keeps the index entries of rows that are gone, and every claim steps over
--           them. No row is added to a promoted load, so its floor is never lowered, and the table
--           keeps it for all claimers. It is raised only past rows that this statement does not see:
--           those that another claim is taking are still visible. A part without rows is removed.
create or replace function rowlease_internal.raise_lane_floor(p_run_number bigint, p_priority smallint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_part  record;
  v_first bigint;
begin
  for v_part in
    select p.part, p.writer, p.first_id, p.last_id from rowlease.lane_part p
     where p.run_number = p_run_number and p.priority = p_priority
     order by p.part for update skip locked
  loop
    v_first := (
      select r.request_id from rowlease.lane r
       where r.run_number = p_run_number and r.writer = v_part.writer
         and r.priority = p_priority and r.part = v_part.part
         and r.request_id >= v_part.first_id and r.request_id <= v_part.last_id
       order by r.request_id limit 1);
    if v_first is not null then
      update rowlease.lane_part p set first_id = v_first
       where p.run_number = p_run_number and p.priority = p_priority and p.part = v_part.part
         and p.first_id < v_first;
      return;
    end if;
    delete from rowlease.lane_part p
     where p.run_number = p_run_number and p.priority = p_priority and p.part = v_part.part;
  end loop;
end $$;
