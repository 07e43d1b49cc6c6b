-- claim_lane: lease requests of the lane that go before all of the queue, and bring others in for claim.
-- params:   p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint,
--           p_limit integer, p_slots integer, p_strict boolean (the policy),
--           p_floor_times timestamptz[], p_floor_ids bigint[]
-- returns:  bigint[] -- the requests it has leased, in claim order
-- errors:   none
-- locks:    rows of lane, exclusive, in claim order, skipping locked ones
-- why:      for the careful way. What is brought into queue before it is claimed leaves entries of its
--           waiting in the indexes, and under an old snapshot all later claims step over these. So in
--           strict order only what goes after a request of the queue is brought in.
create or replace function rowlease_internal.claim_lane(
  p_queue_name text, p_worker_id text, p_now timestamptz, p_lease_ms bigint, p_limit integer,
  p_slots integer, p_strict boolean, p_floor_times timestamptz[], p_floor_ids bigint[]
) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids   bigint[] := '{}';
  v_new   bigint[];
  v_rows  tid[];
  v_block record;
begin
  select * into v_block from rowlease_internal.next_block(p_queue_name, 256, '-infinity', 0);
  while p_strict and v_block.priority is not null loop
    exit when exists (
      select from generate_series(v_block.priority, cardinality(p_floor_times) - 1) as p(priority)
       cross join lateral (
         select q.due_time, q.request_id from rowlease.queue q
          where q.queue_name = p_queue_name and q.priority = p.priority and q.status = 'Pending'
            and not q.group_blocked and not q.returned
            and (q.due_time, q.request_id)
                >= (p_floor_times[p.priority + 1], p_floor_ids[p.priority + 1])
          order by q.due_time, q.request_id limit 1) w
       where p.priority > v_block.priority
          or (w.due_time, w.request_id) < (v_block.promoted_time, v_block.place));
    exit when exists (
      select from rowlease.queue q
       where q.queue_name = p_queue_name and q.status = 'Pending' and not q.group_blocked and q.returned
         and q.priority >= v_block.priority
         and (q.priority > v_block.priority
              or (q.due_time, q.request_id) < (v_block.promoted_time, v_block.place)));
    v_rows := rowlease_internal.first_of_block(
      v_block.run_number, v_block.priority, p_limit - cardinality(v_ids));
    with gone as (
      delete from rowlease.lane r using unnest(v_rows) with ordinality as p(tid, place)
       where r.ctid = p.tid
      returning r.request_id, r.kind, r.payload, p.place),
    claimed as (
      insert into rowlease.queue (
        request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
        locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
        load_id, payload)
      overriding system value
      select g.request_id, p_queue_name, g.kind, 'Processing', v_block.priority,
             v_block.promoted_time, v_block.promoted_time, p_worker_id, p_now,
             p_now + p_lease_ms * interval '1 ms',
             case when g.place <= p_slots - cardinality(v_ids) then p_now end,
             1 + floor(random() * 4294967296)::bigint, 1, v_block.max_attempts, v_block.load_id,
             g.payload
        from gone g
      returning request_id)
    select array_agg(c.request_id) into v_new from claimed c;
    if v_new is not null then
      insert into rowlease.queue_depth (queue_name, priority, pending, processing)
      values (p_queue_name, v_block.priority, -cardinality(v_new), cardinality(v_new));
      v_ids := v_ids || v_new;
    end if;
    exit when cardinality(v_ids) = p_limit;
    select * into v_block from rowlease_internal.next_block(
      p_queue_name, v_block.priority, v_block.promoted_time, v_block.place);
  end loop;
  if cardinality(v_ids) < p_limit then
    perform rowlease_internal.bring_in_first(p_queue_name, p_limit - cardinality(v_ids), p_strict);
  end if;
  return v_ids;
end $$;
