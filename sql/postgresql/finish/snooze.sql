-- snooze: make leased requests wait until later, because their tasks ask for it; no attempt is counted.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_delays_ms bigint[] (at least 1 s),
--           p_reasons text[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      the task decides this, so the number of snoozes has no limit. But the shortest delay is a
--           second, so that a request that is always snoozed does not keep a worker busy. The attempts
--           keep only the last snooze of a request, so that snoozes do not displace errors. A request
--           whose cancellation was requested is cancelled instead.
create or replace function rowlease.snooze(
  p_request_ids bigint[], p_lock_tokens bigint[], p_delays_ms bigint[], p_reasons text[] default null
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  c_second    constant bigint := 1000;          -- ms
  c_ten_years constant bigint := 315360000000;  -- ms
  v_now    timestamptz := rowlease.now();
  v_done   bigint[];
  v_cancel bigint[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, coalesce(cardinality(p_delays_ms), 0),
                                         cardinality(p_reasons));
  with given as materialized (
    select g.id, g.token, left(g.reason, 2000) as reason,
           least(greatest(coalesce(g.delay_ms, 0), c_second), c_ten_years) * interval '1 ms' as delay
      from unnest(p_request_ids, p_lock_tokens, p_delays_ms, p_reasons)
           as g(id, token, delay_ms, reason)
     order by g.id),
  judged as materialized (
    select g.*, q.cancel_requested, q.num_attempts, q.locked_by,
           coalesce(q.started_time, q.locked_time) as started_time
      from given g join rowlease.queue q on q.request_id = any(array[g.id])
     where q.lock_token = g.token and q.locked_by is not null
     order by g.id
       for no key update of q),
  snoozed as (
    update rowlease.queue q
       set status = 'Scheduled',
           due_time = case when j.cancel_requested then q.due_time else v_now + j.delay end,
           num_attempts = q.num_attempts - 1, num_abandons = 0,
           locked_by = null, lock_expires_time = null, started_time = null,
           cancel_requested = false
      from judged j
     where q.request_id = any(array[j.id]) and q.lock_token = j.token and q.locked_by is not null
    returning q.request_id, q.queue_name, q.priority, j.cancel_requested),
  replaced as (
    delete from rowlease.attempt a using judged j
     where a.request_id = any(array[j.id]) and a.outcome = 'snoozed'),
  kept as (
    insert into rowlease.attempt (request_id, lock_token, attempt_number, worker_id, started_time,
                                  ended_time, outcome, error, expires_time)
    select j.id, j.token, j.num_attempts, j.locked_by, j.started_time, v_now, 'snoozed', j.reason,
           v_now + interval '1 day'
      from judged j
        on conflict do nothing),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, processing, scheduled)
    select s.queue_name, s.priority, -count(*), count(*)
      from snoozed s group by s.queue_name, s.priority)
  select coalesce(array_agg(s.request_id), '{}'),
         array_agg(s.request_id) filter (where s.cancel_requested)
    into v_done, v_cancel
    from snoozed s;
  perform rowlease_internal.trim_attempts(v_done);
  perform rowlease_internal.after_leases(null, null, v_cancel, null, null, v_now);
  return query select * from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens, v_done);
end $$;
