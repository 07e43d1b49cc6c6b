-- next_block: find the first block of a queue's lane after a place in the order of claims.
-- params:   p_queue_name text, p_priority integer, p_time timestamptz, p_place bigint
-- returns:  run_number bigint, load_id varchar, promoted_time timestamptz, place bigint,
--           max_attempts integer, priority smallint, is_behind boolean (a request in queue goes before
--           it) -- no row if there is none
-- errors:   none
-- locks:    none
-- why:      a block is what a load has of one priority. Its rows may all be locked by other claims, so
--           the next block is found by its place and not by what is left. lane_part has few rows, and
--           none for a block that is used up. PostgreSQL inlines this function.
create or replace function rowlease_internal.next_block(
  p_queue_name text, p_priority integer, p_time timestamptz, p_place bigint
) returns table (
  run_number bigint, load_id varchar, promoted_time timestamptz, place bigint, max_attempts integer,
  priority smallint, is_behind boolean)
language sql stable
begin atomic
  select f.*,
         exists (select from rowlease.queue q
                  where q.queue_name = p_queue_name and q.status = 'Pending'
                    and not q.group_blocked and not q.returned and q.priority > f.priority)
         or exists (select from rowlease.queue q
                     where q.queue_name = p_queue_name and q.status = 'Pending'
                       and not q.group_blocked and not q.returned and q.priority = f.priority
                       and (q.due_time, q.request_id) < (f.promoted_time, f.place))
    from (select l.run_number, l.load_id, l.promoted_time, l.place, l.max_attempts, b.priority
            from rowlease.load l
           cross join lateral (
             select p.priority from rowlease.lane_part p
              where p.run_number = l.run_number
                and p.priority <= p_priority
                                  - ((l.promoted_time, l.place) <= (p_time, p_place))::integer
              order by p.priority desc limit 1) b
           where l.queue_name = p_queue_name and l.in_lane
           order by b.priority desc, l.promoted_time, l.place limit 1) f;
end;
