-- next_block: find the first block of a queue's lane after a place in the order of claims.
-- params:   p_queue_name text, p_priority integer, p_time timestamptz, p_place bigint
-- returns:  run_number bigint, load_id varchar, promoted_time timestamptz, place bigint,
--           max_attempts integer, priority smallint -- no row if there is none
-- errors:   none
-- locks:    none
-- why:      a block is the rows of a load with one priority. All of them may be locked by other
--           claims, so the next block is found by its place, and not by the rows that are left.
--           lane_part has few rows, and none for a block that is used up. PostgreSQL inlines this
--           function.
create or replace function rowlease_internal.next_block(
  p_queue_name text, p_priority integer, p_time timestamptz, p_place bigint
) returns table (
  run_number bigint, load_id varchar, promoted_time timestamptz, place bigint, max_attempts integer,
  priority smallint)
language sql stable
begin atomic
  select l.run_number, l.load_id, l.promoted_time, l.place, l.max_attempts, b.priority
    from rowlease.load l
   cross join lateral (
     select p.priority from rowlease.lane_part p
      where p.run_number = l.run_number
        and p.priority <= p_priority - ((l.promoted_time, l.place) <= (p_time, p_place))::integer
      order by p.priority desc limit 1) b
   where l.queue_name = p_queue_name and l.in_lane
   order by b.priority desc, l.promoted_time, l.place limit 1;
end;
