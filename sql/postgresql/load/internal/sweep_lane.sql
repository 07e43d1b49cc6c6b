-- sweep_lane: delete rows of the lane that will never be requests, and close loads that are used up.
-- params:   p_limit integer -- how many loads, and rows at once; a call stops at the first part after
--           this many rows
-- returns:  bigint -- how many rows were dropped
-- errors:   none
-- locks:    rows of load, lane_part and lane, skipping locked ones
-- why:      a row counts if its transaction has ended its part (end_part), and if the part's run is
--           staging or promoted. All other rows that are committed are garbage: their run is over,
--           or they carry no mark, or came late. The key is read from part to part, and the rows
--           between are not, so this costs a step for each part and priority. A load is used up when
--           raise_lane_floor has found no row of it. If this takes long, because of many parts or of
--           dead entries under an old snapshot, it runs for a fiftieth of the time, as
--           recount_queues.
create or replace function rowlease_internal.sweep_lane(p_limit integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_at      record;
  v_part    record;
  v_rows    bigint;
  v_last    bigint;  -- the last row that was dropped
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
  select -1 as writer, 0::smallint as priority, 0::bigint as id into v_at;
  loop
    select r.run_number as run, r.writer, r.priority, r.part, r.request_id as id into v_at
      from rowlease.lane r
     where (r.writer, r.priority, r.request_id) > (v_at.writer, v_at.priority, v_at.id)
     order by r.writer, r.priority, r.request_id limit 1;
    exit when not found or v_dropped >= p_limit;
    select p.first_id, p.last_id into v_part
      from rowlease.lane_part p
     where p.run_number = v_at.run and p.priority = v_at.priority and p.part = v_at.part
       and p.writer = v_at.writer and p.last_id >= v_at.id;
    if not (found and v_part.first_id <= v_at.id) then
      with gone as (
        delete from rowlease.lane r
         where r.ctid = any(array(
                 select o.ctid from rowlease.lane o
                  where o.writer = v_at.writer and o.priority = v_at.priority
                    and o.request_id >= v_at.id
                    and o.request_id < coalesce(v_part.first_id, 9223372036854775807)
                    and o.run_number = v_at.run and o.part = v_at.part
                  order by o.request_id limit p_limit for update skip locked))
        returning r.request_id)
      select count(*), greatest(v_at.id, max(g.request_id)) into v_rows, v_last from gone g;
      v_dropped := v_dropped + v_rows;
    end if;
    v_at.id := coalesce(v_part.last_id, v_last);
  end loop;
  v_cost := clock_timestamp() - v_started;
  if v_dropped = 0 and v_cost > interval '100 ms' then
    perform set_config('rowlease.sweep_lane_after', (clock_timestamp() + 50 * v_cost)::text, false);
  end if;
  return v_dropped;
end $$;
