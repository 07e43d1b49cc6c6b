-- bring_in_named: move the requests with these ids into queue, if they are in the lane.
-- params:   p_request_ids bigint[]
-- returns:  void
-- errors:   none
-- locks:    rows of lane, exclusive, in request order; held to the caller's commit
-- why:      the lane has no index by request id, which every row of a load would pay for. The first
--           and the last id of each part leave few places to look. Without a promoted load in the
--           lane it costs one probe of an index.
create or replace function rowlease_internal.bring_in_named(p_request_ids bigint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  perform from rowlease.load l where l.in_lane limit 1;
  if found then
    perform rowlease_internal.bring_in(array(
      select r.ctid
        from (select distinct u.id from unnest(p_request_ids) as u(id)) g
       cross join rowlease.load l
        join rowlease.lane_part p on p.run_number = l.run_number
        join rowlease.lane r on r.run_number = p.run_number and r.writer = p.writer
                            and r.priority = p.priority and r.part = p.part
                            and r.request_id = g.id
       where l.in_lane and g.id between p.first_id and p.last_id
       order by g.id
         for update of r));
  end if;
end $$;
