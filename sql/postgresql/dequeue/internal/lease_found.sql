-- lease_found: lease requests that a claim has found and locked.
-- params:   p_queue_name text, p_worker_id text, p_lease_ms bigint, p_slots integer,
--           p_request_ids bigint[], p_rows tid[] (for each request: its row of the lane, or null),
--           p_loads rowlease.load[] (those in the lane)
-- returns:  void
-- errors:   23505 another claim has concurrently leased a request of the same group
-- locks:    none
-- why:      rows of queue are updated, and rows of the lane are moved into queue. A token grows by a
--           random number up to 2^32, so that after a failover or a restore, a lost claim and a new
--           claim of the same id have different tokens.
create or replace function rowlease_internal.lease_found(
  p_queue_name text, p_worker_id text, p_lease_ms bigint, p_slots integer,
  p_request_ids bigint[], p_rows tid[], p_loads rowlease.load[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  if num_nonnulls(variadic p_rows) < cardinality(p_request_ids) then
    with claimed as (
      update rowlease.queue q
         set status = 'Processing', locked_by = p_worker_id, locked_time = l.written,
             lock_expires_time = l.written + p_lease_ms * interval '1 ms',
             started_time = case when l.place <= p_slots then l.written end,
             lock_token = q.lock_token + 1 + floor(random() * 4294967296)::bigint,
             num_attempts = q.num_attempts + 1, returned = false
        from (select l.*, (select rowlease.now()) as written
                from unnest(p_request_ids, p_rows) with ordinality as l(id, tid, place)
               where l.tid is null) l
       where q.request_id = any(array[l.id])
      returning q.priority)
    insert into rowlease.queue_depth (queue_name, priority, pending, processing)
    select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority;
  end if;
  if num_nonnulls(variadic p_rows) > 0 then
    with gone as (
      delete from rowlease.lane r using unnest(p_rows) with ordinality as p(tid, place)
       where r.ctid = p.tid
      returning r.*, p.place),
    claimed as (
      insert into rowlease.queue (
        request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
        locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
        load_id, payload, headers)
      overriding system value
      select g.request_id, p_queue_name, g.kind, 'Processing', g.priority, l.promoted_time,
             l.promoted_time, p_worker_id, g.written, g.written + p_lease_ms * interval '1 ms',
             case when g.place <= p_slots then g.written end,
             1 + floor(random() * 4294967296)::bigint, 1, l.max_attempts, l.load_id, g.payload,
             g.headers
        from (select gone.*, (select rowlease.now()) as written from gone) g
        join unnest(p_loads) l on l.run_number = g.run_number
      returning priority)
    insert into rowlease.queue_depth (queue_name, priority, pending, processing)
    select p_queue_name, c.priority, -count(*), count(*) from claimed c group by c.priority;
  end if;
end $$;
