-- dequeue: lease up to p_limit waiting requests for a worker.
-- params:   p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer,
--           p_lease_ms bigint, p_floor text
-- returns:  one row per leased request in claim order, then one row whose request_id is null: more
--           (ask again at once), wait_ms (until something is due or expires) and floor (for the
--           next call)
-- errors:   RL001 bad argument, RL002 unknown queue
-- locks:    rows of queue and of lane, exclusive, in claim order, skipping locked ones
-- why:      the plain way to claim. It is for a queue with strict order, without groups, in-flight
--           limit, rate or consumer priorities, and with no expired lease, due Scheduled request,
--           returned request or priority above the maximum to handle first. One statement (look)
--           reads the settings and the first entry of each index; another leases the first requests
--           of the index on waiting requests, and a shorter one leases a single request. The first
--           queue that is not plain, and all queues after it, go to dequeue_carefully. So does a
--           call with p_floor. While a load is in the queue's lane, lease_from_lane leases the
--           load's requests, and those of queue that come before them. A claim returns a floor when
--           it has stepped over many index entries of finished requests, which vacuum cannot remove
--           while an old snapshot is in use. If the look has, the careful way goes on at the
--           request that it found (first_floor). Locked rows keep their addresses (ctid), so the
--           update finds them by these. It misses a row that another transaction changed between
--           the snapshot and the lock; the next claim leases that row. Requests past the first
--           p_slots (default: p_limit) are prefetched: they have not started. A token grows by a
--           random number up to 2^32: after a failover or a restore, a claim that was lost and a
--           new claim of the same id have different tokens. A lease counts from the write of its row,
--           as in renew: a call may be delayed. The row of a single request reads the clock more than
--           once, so the answer subtracts the lease from its end: workers compare lengths.
--           While a transaction that sends no notification is committing requests, wait_ms is at
--           most 20 (next_commit).
create or replace function rowlease.dequeue(
  p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer default null,
  p_lease_ms bigint default null, p_floor text default null
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, headers text, more boolean, wait_ms bigint, floor text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := rowlease.now();
  v_slots    integer := coalesce(p_slots, p_limit);
  v_left     integer := p_limit;
  v_stepped  bigint := rowlease_internal.num_stepped_over();
  v_queue    text;
  v_look     record;
  v_plain    boolean;
  v_lease_ms bigint;
  v_wanted   integer;
  v_num      integer;
  v_next     timestamptz;
begin
  if coalesce(p_worker_id, '') = '' or p_queue_names is null or p_limit is null
     or p_limit not between 1 and 10000 or p_lease_ms not between 100 and 86400000 then
    raise exception using errcode = 'RL001',
      message = 'dequeue needs a worker id, queues, a limit of 1 to 10000 and a lease of 100 to '
                '86400000 ms';
  end if;
  for v_place in 1 .. cardinality(p_queue_names) loop
    exit when v_left = 0;
    v_queue := p_queue_names[v_place];
    if p_floor is null then
      v_next := least(v_next, rowlease_internal.next_commit(v_queue, v_now));
      select * into v_look from rowlease_internal.look(v_queue, v_now);
      v_plain := v_look.is_plain;
      if rowlease_internal.needs_floor(v_stepped, v_left) then
        p_floor := rowlease_internal.first_floor(v_queue, v_now, v_look.max_priority, v_plain,
          v_look.first_priority, v_look.first_time, v_look.first_id);
        v_plain := false;
      end if;
    end if;
    if v_plain is not true then
      return query
        select d.* from rowlease_internal.dequeue_carefully(
          p_worker_id, p_queue_names[v_place:], v_left, v_slots - p_limit + v_left, p_lease_ms,
          p_floor, v_next) d;
      return;
    end if;
    continue when v_look.paused;
    if v_look.first_priority is null and not v_look.in_lane then
      v_next := least(v_next, v_look.next_event);
      continue;
    end if;
    v_lease_ms := coalesce(p_lease_ms, v_look.lease_seconds * 1000::bigint);
    v_wanted := v_left;
    if v_look.in_lane then
      return query
        select d.* from rowlease_internal.lease_from_lane(
          p_worker_id, v_queue, v_lease_ms, v_left, v_slots - p_limit + v_left,
          v_look.first_priority, v_look.first_time, v_look.first_id) d;
      get diagnostics v_num = row_count;
      v_left := v_left - v_num;
    end if;
    if v_left = 1 and v_look.first_priority is not null then
      update rowlease.queue q
         set status = 'Processing', locked_by = p_worker_id, locked_time = rowlease.now(),
             lock_expires_time = rowlease.now() + v_lease_ms * interval '1 ms',
             started_time = case when v_slots >= p_limit then rowlease.now() end,
             lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint,
             num_attempts = q.num_attempts + 1
       where q.request_id = (
               select p.request_id from rowlease.queue p
                where p.queue_name = v_queue and p.status = 'Pending' and not p.group_blocked
                  and not p.returned and p.priority <= v_look.max_priority and p.group_key is null
                order by p.priority desc, p.due_time, p.request_id
                limit 1 for no key update skip locked)
      returning q.request_id, q.queue_name, q.kind, q.priority, q.requested_time, q.due_time,
                q.lock_expires_time - v_lease_ms * interval '1 ms', q.lock_expires_time,
                q.lock_token, q.num_attempts, q.max_attempts, q.num_crashes, q.group_key,
                q.load_id, q.payload, q.headers
           into request_id, queue_name, kind, priority, requested_time, due_time, locked_time,
                lock_expires_time, lock_token, num_attempts, max_attempts, num_crashes, group_key,
                load_id, payload, headers;
      if found then
        insert into rowlease.queue_depth (queue_name, priority, pending, processing)
        values (v_queue, priority, -1, 1);
        return next;
        v_left := 0;
        request_id := null; queue_name := null; kind := null; priority := null;
        requested_time := null; due_time := null; locked_time := null; lock_expires_time := null;
        lock_token := null; num_attempts := null; max_attempts := null; num_crashes := null;
        group_key := null; load_id := null; payload := null; headers := null;
      end if;
    elsif v_left > 0 and v_look.first_priority is not null then
      return query
        with picked as materialized (
          select p.tid, row_number() over () as place, (select rowlease.now()) as written
            from (select q.ctid as tid from rowlease.queue q
                   where q.queue_name = v_queue and q.status = 'Pending'
                     and not q.group_blocked and not q.returned
                     and q.priority <= v_look.max_priority and q.group_key is null
                   order by q.priority desc, q.due_time, q.request_id
                   limit v_left for no key update skip locked) p),
        claimed as (
          update rowlease.queue q
             set status = 'Processing', locked_by = p_worker_id, locked_time = p.written,
                 lock_expires_time = p.written + v_lease_ms * interval '1 ms',
                 started_time = case when p.place <= v_slots - p_limit + v_left then p.written end,
                 lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint,
                 num_attempts = q.num_attempts + 1
            from picked p
           where q.ctid = p.tid
          returning q.request_id, q.queue_name::text, q.kind::text, q.priority::integer,
                    q.requested_time, q.due_time, q.locked_time, q.lock_expires_time,
                    q.lock_token, q.num_attempts, q.max_attempts, q.num_crashes,
                    q.group_key::text, q.load_id::text, q.payload::text, q.headers::text),
        counted as (
          insert into rowlease.queue_depth (queue_name, priority, pending, processing)
          select v_queue, c.priority, -count(*), count(*) from claimed c group by c.priority)
        select c.*, null::boolean, null::bigint, null::text from claimed c;
      get diagnostics v_num = row_count;
      v_left := v_left - v_num;
    end if;
    if v_left < v_wanted and v_look.capacity is not null then
      perform rowlease_internal.wake_producers(v_queue);
    end if;
    if v_left > 0 then
      v_next := least(v_next, rowlease_internal.next_event(v_queue, v_now, 'infinity'));
    end if;
  end loop;
  more := v_left = 0;
  if not more and isfinite(v_next) then
    wait_ms := greatest(0, ceil(extract(epoch from v_next - v_now) * 1000));
  end if;
  floor := case when rowlease_internal.needs_floor(v_stepped, p_limit) then '{}' end;
  return next;
end $$;
