-- num_ahead_in_lane: count the requests of a queue's lane that go before a waiting request.
-- params:   p_request_id bigint, p_load_id text, p_queue_name text, p_priority integer,
--           p_due_time timestamptz, p_most integer (count no more)
-- returns:  bigint
-- errors:   none
-- locks:    none
-- why:      each part of a load that goes first is a range of the lane's key. The range of the part
--           that the request itself is in ends there. `offset 0` makes the part come before its rows
--           in every plan; else the planner may search the key of the whole load.
create or replace function rowlease_internal.num_ahead_in_lane(
  p_request_id bigint, p_load_id text, p_queue_name text, p_priority integer,
  p_due_time timestamptz, p_most integer
) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
declare
  v_own record;  -- the part of a request that is in the lane itself
begin
  select l.place, r.part into v_own
    from rowlease.load l
    join rowlease.lane_part p on p.run_number = l.run_number
   cross join lateral (
     select r.part from rowlease.lane r
      where r.run_number = p.run_number and r.writer = p.writer
        and r.priority = p.priority and r.part = p.part and r.request_id = p_request_id
     offset 0) r
   where l.load_id = p_load_id
     and p_request_id between p.first_id and p.last_id;
  return (select count(*) from (
    select from rowlease.load l
      join rowlease.lane_part p on p.run_number = l.run_number
     cross join lateral (
       select from rowlease.lane r
        where r.run_number = p.run_number and r.writer = p.writer
          and r.priority = p.priority and r.part = p.part
          and r.request_id >= p.first_id
          and r.request_id <= case
                when (l.place, p.priority, p.part) = (v_own.place, p_priority, v_own.part)
                then p_request_id - 1 else p.last_id end
        order by r.request_id limit p_most) r
     where l.queue_name = p_queue_name and l.in_lane
       and (p.priority > p_priority
         or p.priority = p_priority
            and ((l.promoted_time, l.place)
                   < (p_due_time, coalesce(v_own.place, p_request_id))
              or l.place = v_own.place and p.part <= v_own.part))
     limit p_most) ahead);
end $$;
