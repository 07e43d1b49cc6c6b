-- claim_carefully: lease the first waiting requests of a queue, in a given order of priorities.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_priorities integer[], p_quotas integer[], p_until timestamptz, p_limit integer,
--           p_slots integer, p_floor_times timestamptz[], p_floor_ids bigint[],
--           p_loads rowlease.load[] (those in the lane), p_group_rate text
-- returns:  leased bigint[]: the requests it has leased, behind bigint[]: requests that it has
--           locked but that are behind another request of their group, or whose group has used up
--           its rate; both are null if empty.
--           met_priorities integer[], met_times timestamptz[], met_ids bigint[]: the keys of all
--           these requests in the order of claims. Each array is in this order.
-- errors:   23505 another claim has concurrently leased a request of the same group
-- locks:    rows of queue and of lane, exclusive, in claim order, skipping locked ones
-- why:      each priority needs one probe of the index, and only as far as needed. Nothing is
--           sorted, so only returned rows are locked. Locked rows do not change, so lease_found
--           leases them: a LIMIT inside the join of an UPDATE may be evaluated again and lock more
--           rows, and a claim that finds nothing does not prepare a write. Plans are pinned: with
--           an unknown LIMIT, the generic plan used a sequential scan and a sort.
--           Floors (one per priority, from 0) keep the scan from stepping over entries of finished
--           requests that an old snapshot still holds. Returned requests may be below a floor, so
--           they have their own index, and they divide the scan into pieces. Each piece has one
--           upper bound, because an index scan does not stop at a second one. Each load in the lane
--           ends a piece, too: its requests are in line at its place, part by part. Returned
--           requests are looked up by key: `|| ''` keeps an index on Pending from seeming cheaper.
create or replace function rowlease_internal.claim_carefully(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
  p_priorities integer[], p_quotas integer[], p_until timestamptz, p_limit integer,
  p_slots integer, p_floor_times timestamptz[], p_floor_ids bigint[], p_loads rowlease.load[],
  p_group_rate text, out leased bigint[], out behind bigint[], out met_priorities integer[],
  out met_times timestamptz[], out met_ids bigint[]
) language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
declare
  v_rows tid[];  -- for each leased request: its row of the lane, or null
begin
  select array_agg(c.request_id) filter (where c.free), array_agg(c.tid) filter (where c.free),
         array_agg(c.request_id) filter (where not c.free),
         array_agg(c.priority), array_agg(c.due_time), array_agg(coalesce(c.place, c.request_id))
    into leased, v_rows, behind, met_priorities, met_times, met_ids
    from (
      select o.priority, c.due_time, c.request_id, c.tid, c.place, c.free
        from unnest(p_priorities, p_quotas) as o(priority, quota)
       cross join lateral (
         select u.due_time, u.request_id, u.tid, u.place, u.group_key is null
                  or rowlease_internal.group_is_free(p_queue_name, u.group_key, u.request_id)
                    and (p_group_rate is null or (
                      select r.room > 0 from rowlease_internal.room_in_rate(
                        p_queue_name, ':' || u.group_key, p_group_rate, p_now) r)) as free
           from (select k.due_time, k.request_id, k.run_number,
                        greatest(lag(k.due_time) over w, p_floor_times[o.priority + 1]) as from_time,
                        case when (lag(k.due_time) over w, lag(k.request_id) over w)
                                  > (p_floor_times[o.priority + 1], p_floor_ids[o.priority + 1])
                             then lag(k.request_id) over w else p_floor_ids[o.priority + 1] end
                          as from_id
                   from ((select q.due_time, q.request_id, null::bigint as run_number
                            from rowlease.queue q
                           where q.queue_name = p_queue_name and q.priority = o.priority
                             and q.status = 'Pending' and not q.group_blocked and q.returned
                             and q.due_time <= p_until
                           order by q.due_time, q.request_id limit o.quota)
                         union all
                         select l.promoted_time, l.place, l.run_number from unnest(p_loads) l
                          where l.promoted_time <= p_until
                         union all select p_until, 9223372036854775807, 0) k
                 window w as (order by k.due_time, k.request_id)) k
          cross join lateral (
            select f.*, null::tid as tid, null::bigint as place from (
              select q.due_time, q.request_id, q.group_key from rowlease.queue q
               where q.queue_name = p_queue_name and q.priority = o.priority
                 and q.status = 'Pending' and not q.group_blocked and not q.returned
                 and (q.due_time, q.request_id) >= (k.from_time, k.from_id)
                 and (q.due_time, q.request_id) < (k.due_time, k.request_id)
               order by q.due_time, q.request_id
                 for no key update skip locked) f
            union all
            select r.*, null, null from (
              select q.due_time, q.request_id, q.group_key from rowlease.queue q
               where k.run_number is null and q.request_id = k.request_id
                 and q.status || '' = 'Pending'
                 and not q.group_blocked and q.returned
                 for no key update skip locked) r
            union all
            select k.due_time, y.request_id, null, y.tid, k.request_id
              from (select b.part, b.writer, b.first_id, b.last_id from rowlease.lane_part b
                     where k.run_number > 0 and b.run_number = k.run_number
                       and b.priority = o.priority
                     order by b.part) b
             cross join lateral (
               select r.ctid as tid, r.request_id from rowlease.lane r
                where (r.run_number, r.writer) = (k.run_number, b.writer) and r.priority = o.priority
                  and r.part = b.part and r.request_id between b.first_id and b.last_id
                order by r.request_id for update skip locked) y) u
          limit o.quota) c
       limit p_limit) c;
  if leased is null then
    return;
  end if;
  perform rowlease_internal.lease_found(
    p_queue_name, p_worker_id, p_lease_ms, p_slots, leased, v_rows, p_loads);
end $$;
