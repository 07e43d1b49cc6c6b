-- claim: lease the first waiting requests of a queue, in a given order of priorities.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_priorities integer[], p_quotas integer[], p_until timestamptz, p_limit integer,
--           p_slots integer, p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  leased bigint[]: the requests it has leased, behind bigint[]: requests that it has
--           locked but that are behind another request of their group; both are null if empty.
--           met_priorities integer[], met_times timestamptz[], met_ids bigint[]: all of these
--           requests together. Each array is in claim order.
-- errors:   23505 another claim has concurrently leased a request of the same group
-- locks:    rows of queue, exclusive, in claim order, skipping locked ones
-- why:      each priority needs one probe of the index, and only as far as needed. Nothing is
--           sorted, so only returned rows are locked. Locked rows do not change, so a separate
--           statement leases them: a LIMIT inside the join of an UPDATE may be evaluated again and
--           lock more rows, and a claim that finds nothing does not prepare a write. Plans are
--           pinned: with an unknown LIMIT, the generic plan used a sequential scan and a sort.
--           Floors (one per priority, from 0) keep the scan from stepping over entries of finished
--           requests that an old snapshot still holds. Returned requests may be below a floor, so
--           they have their own index, and they divide the scan into pieces. Each piece has one
--           upper bound, because an index scan does not stop at a second one. Returned requests
--           are looked up by key: `|| ''` keeps an index on Pending from seeming cheaper. A token
--           grows by a random number up to 2^32, so that after a failover or a restore, a lost
--           claim and a new claim of the same id have different tokens.
create or replace function rowlease_internal.claim(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
  p_priorities integer[], p_quotas integer[], p_until timestamptz, p_limit integer,
  p_slots integer, p_floor_times timestamptz[], p_floor_ids bigint[],
  out leased bigint[], out behind bigint[], out met_priorities integer[],
  out met_times timestamptz[], out met_ids bigint[]
) language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
begin
  select array_agg(c.request_id) filter (where c.free),
         array_agg(c.request_id) filter (where not c.free),
         array_agg(c.priority), array_agg(c.due_time), array_agg(c.request_id)
    into leased, behind, met_priorities, met_times, met_ids
    from (
      select o.priority, c.due_time, c.request_id, c.free
        from unnest(p_priorities, p_quotas) as o(priority, quota)
       cross join lateral (
         select u.due_time, u.request_id, u.group_key is null
                  or rowlease_internal.group_is_free(p_queue_name, u.group_key, u.request_id) as free
           from (select k.due_time, k.request_id,
                        greatest(lag(k.due_time) over w, p_floor_times[o.priority + 1]) as from_time,
                        case when (lag(k.due_time) over w, lag(k.request_id) over w)
                                  > (p_floor_times[o.priority + 1], p_floor_ids[o.priority + 1])
                             then lag(k.request_id) over w else p_floor_ids[o.priority + 1] end
                          as from_id
                   from ((select q.due_time, q.request_id from rowlease.queue q
                           where q.queue_name = p_queue_name and q.priority = o.priority
                             and q.status = 'Pending' and not q.group_blocked and q.returned
                             and q.due_time <= p_until
                           order by q.due_time, q.request_id limit o.quota)
                         union all select p_until, 9223372036854775807) k
                 window w as (order by k.due_time, k.request_id)) k
          cross join lateral (
            select f.* from (
              select q.due_time, q.request_id, q.group_key from rowlease.queue q
               where q.queue_name = p_queue_name and q.priority = o.priority
                 and q.status = 'Pending' and not q.group_blocked and not q.returned
                 and (q.due_time, q.request_id) >= (k.from_time, k.from_id)
                 and (q.due_time, q.request_id) < (k.due_time, k.request_id)
               order by q.due_time, q.request_id
                 for no key update skip locked) f
            union all
            select r.* from (
              select q.due_time, q.request_id, q.group_key from rowlease.queue q
               where q.request_id = k.request_id and q.status || '' = 'Pending'
                 and not q.group_blocked and q.returned
                 for no key update skip locked) r) u
          limit o.quota) c
       limit p_limit) c;
  if leased is null then
    return;
  end if;
  with claimed as (
    update rowlease.queue q
       set status = 'Processing', locked_by = p_worker_id, locked_time = p_now,
           lock_expires_time = p_now + p_lease_ms * interval '1 ms',
           started_time = case when l.place <= p_slots then p_now end,
           lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint,
           num_attempts = q.num_attempts + 1, returned = false
      from unnest(leased) with ordinality as l(id, place)
     where q.request_id = any(array[l.id])
    returning q.priority)
  insert into rowlease.queue_depth (queue_name, priority, pending, processing)
  select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority;
end $$;
