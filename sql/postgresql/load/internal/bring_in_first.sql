-- bring_in_first: move the first requests of a queue's lane into queue, as many as a claim may take.
-- params:   p_queue_name text, p_limit integer, p_strict boolean -- only the highest priorities
-- returns:  void
-- errors:   none
-- locks:    rows of lane, exclusive, in claim order, skipping locked ones
-- why:      for the careful way to claim, which reads queue alone. At each priority p_limit requests
--           that are due before the rest of the lane are enough: no claim takes more. Those of an
--           earlier call count, so that they do not become more and more.
create or replace function rowlease_internal.bring_in_first(
  p_queue_name text, p_limit integer, p_strict boolean
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_block record;
  v_have  integer;
  v_rows  tid[];
begin
  for v_block in
    select distinct p.priority, l.promoted_time, l.place, l.run_number
      from rowlease.load l join rowlease.lane_part p on p.run_number = l.run_number
     where l.queue_name = p_queue_name and l.in_lane
     order by p.priority desc, l.promoted_time, l.place
  loop
    v_have := (select count(*) from (
      select from rowlease.queue q
       where q.queue_name = p_queue_name and q.priority = v_block.priority and q.status = 'Pending'
         and not q.group_blocked and q.returned and q.due_time <= v_block.promoted_time
       limit p_limit) h);
    v_rows := rowlease_internal.first_of_block(v_block.run_number, v_block.priority, p_limit - v_have);
    perform rowlease_internal.bring_in(v_rows);
    exit when p_strict and v_have + cardinality(v_rows) >= p_limit;
  end loop;
end $$;
