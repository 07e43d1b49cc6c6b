-- end_part: count the rows that a part of a load has put into the lane, in the transaction that wrote them.
-- params:   p_load_id text, p_run_number bigint, p_part bigint (the partition times 2^16, plus a
--           number of the attempt), p_priorities integer[], p_counts bigint[] (rows of each priority)
-- returns:  void
-- errors:   RL001 bad argument, RL014 another run has taken the load over, or the
--           load is promoted
-- locks:    the load's row, shared; held to the caller's commit
-- why:      this is the fence of the lane. The lock waits for a promote or a takeover that is running,
--           and makes later ones wait for this commit. So rows are committed either before the load is
--           promoted, with their count, or not at all. The ids of a part grow with its rows, so its
--           first and last are found at the ends of a range of the key.
create or replace function rowlease.end_part(
  p_load_id text, p_run_number bigint, p_part bigint, p_priorities integer[], p_counts bigint[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
begin
  if p_part is null or cardinality(p_priorities) is distinct from cardinality(p_counts) then
    raise exception using errcode = 'RL001',
      message = 'end_part needs a part, and as many counts as priorities';
  end if;
  perform from rowlease.load l
    where l.load_id = p_load_id and l.run_number = p_run_number and l.status = 'Staging'
      for key share;
  if not found then
    perform rowlease_internal.take_load(p_load_id, p_run_number);
    raise exception using errcode = 'RL014',
      message = format('load "%s" is promoted: rows that are written now do not count', p_load_id);
  end if;
  insert into rowlease.lane_part (run_number, priority, part, num_rows, first_id, last_id)
  select p_run_number, g.priority, p_part, g.num_rows,
         (select r.request_id from rowlease.lane r
           where r.run_number = p_run_number and r.priority = g.priority and r.part = p_part
           order by r.request_id limit 1),
         (select r.request_id from rowlease.lane r
           where r.run_number = p_run_number and r.priority = g.priority and r.part = p_part
           order by r.request_id desc limit 1)
    from unnest(p_priorities, p_counts) as g(priority, num_rows);
end $$;
