-- sweep_lane: delete rows of the lane that will never be promoted, and close loads that are used up.
-- params:   p_limit integer -- how many loads, and rows of each run
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of load, lane_part and lane, skipping locked ones
-- why:      a row belongs to a staged or promoted load, or to no load any more, because its run was
--           superseded or had no report for a day. A load is used up when raise_lane_floor has found
--           no row of it. Runs are looked up in the key, one step each. While a snapshot is held
--           open, dead entries slow this down: then it runs less often, as in keep_floor.
create or replace function rowlease_internal.sweep_lane(p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_run     bigint := -1;
  v_rows    bigint;
  v_dropped bigint := 0;
  v_started timestamptz := clock_timestamp();
  v_cost    interval;
begin
  if v_started < nullif(current_setting('rowlease.sweep_lane_after', true), '')::timestamptz then
    return 0;
  end if;
  perform rowlease_internal.raise_lane_floors(array(select l from rowlease.load l where l.in_lane));
  update rowlease.load l set in_lane = false
   where l.load_id = any(array(
           select o.load_id from rowlease.load o
            where o.in_lane
              and not exists (select from rowlease.lane_part p where p.run_number = o.run_number)
            limit p_limit for update skip locked));
  delete from rowlease.lane_part p
   where not exists (select from rowlease.load l where l.run_number = p.run_number
                                                   and (l.status = 'Staging' or l.in_lane));
  loop
    select r.run_number into v_run
      from rowlease.lane r where r.run_number > v_run order by r.run_number limit 1;
    exit when not found;
    continue when exists (select from rowlease.load l where l.run_number = v_run
                                                        and (l.status = 'Staging' or l.in_lane));
    delete from rowlease.lane r
     where r.ctid = any(array(select o.ctid from rowlease.lane o where o.run_number = v_run
                               limit p_limit for update skip locked));
    get diagnostics v_rows = row_count;
    v_dropped := v_dropped + v_rows;
  end loop;
  v_cost := clock_timestamp() - v_started;
  if v_dropped = 0 and v_cost > interval '50 ms' then
    perform set_config('rowlease.sweep_lane_after', (clock_timestamp() + 50 * v_cost)::text, false);
  end if;
  return v_dropped;
end $$;
