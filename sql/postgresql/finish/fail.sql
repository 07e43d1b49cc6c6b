-- fail: report that leased requests failed; each is retried later or becomes a dead letter.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_errors text[],
--           p_retries_ms bigint[] (null: the queue's back-off), p_dead boolean[] (never retry),
--           p_error_types text[] (names of exceptions), p_tracebacks text[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', and
--           dead boolean (it is a dead letter now), in the order given
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      the counters are in the database, so this routine decides whether an attempt is left
--           and how long to wait. A request whose cancellation was requested is cancelled instead.
create or replace function rowlease.fail(
  p_request_ids bigint[], p_lock_tokens bigint[], p_errors text[], p_retries_ms bigint[] default null,
  p_dead boolean[] default null, p_error_types text[] default null, p_tracebacks text[] default null
) returns table (request_id bigint, outcome text, dead boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- A task may choose any delay; a date after the end of the calendar must not fail the batch.
  c_ten_years constant bigint := 315360000000;  -- ms
  v_now      timestamptz := rowlease.now();
  v_done     bigint[];
  v_cancel   bigint[];
  v_queues   text[];
  v_groups   text[];
  v_wake     text[];
  v_dead     bigint[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_errors),
                                         cardinality(p_retries_ms), cardinality(p_dead),
                                         cardinality(p_error_types), cardinality(p_tracebacks));
  with given as materialized (
    select g.id, g.token, left(coalesce(g.error, 'no reason given'), 8000) as error, g.retry_ms,
           coalesce(g.dead, false) as dead, g.error_type, g.traceback
      from unnest(p_request_ids, p_lock_tokens, p_errors, p_retries_ms, p_dead, p_error_types,
                  p_tracebacks) as g(id, token, error, retry_ms, dead, error_type, traceback)
     order by g.id),
  judged as materialized (
    select g.*, q.cancel_requested, q.num_attempts, q.locked_by,
           coalesce(q.started_time, q.locked_time) as started_time,
           (g.dead or q.num_attempts >= q.max_attempts) and not q.cancel_requested as is_dead,
           case when g.retry_ms is not null then least(greatest(g.retry_ms, 0), c_ten_years)
                else rowlease_internal.backoff_ms(coalesce(q.retry_base_ms, s.retry_base_ms), s.retry_cap_ms,
                                         q.num_attempts) end * interval '1 ms' as delay
      from given g
      join rowlease.queue q on q.request_id = any(array[g.id])
      join rowlease.queue_settings s on s.queue_name = q.queue_name
     where q.lock_token = g.token and q.locked_by is not null
     order by g.id
       for no key update of q),
  failed as (
    update rowlease.queue q
       set status = case when j.is_dead then 'Failed'
                         when j.delay > interval '0' then 'Scheduled' else 'Pending' end,
           due_time = case when j.is_dead or j.cancel_requested then q.due_time
                           else v_now + j.delay end,
           completion_time = case when j.is_dead then v_now end,
           last_error = j.error, num_abandons = 0,
           locked_by = null, lock_expires_time = null, started_time = null,
           cancel_requested = false
      from judged j
     where q.request_id = any(array[j.id]) and q.lock_token = j.token and q.locked_by is not null
    returning q.request_id, q.queue_name, q.priority, q.load_id, q.status, q.group_key,
              j.cancel_requested),
  kept as (
    insert into rowlease.attempt (request_id, lock_token, attempt_number, worker_id, started_time,
                                  ended_time, outcome, error, error_type, traceback, expires_time)
    select j.id, j.token, j.num_attempts, j.locked_by, j.started_time, v_now, 'failed',
           left(j.error, 2000), left(j.error_type, 200), right(j.traceback, 6000),
           v_now + interval '1 day'
      from judged j
        on conflict do nothing),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, processing, scheduled, pending,
                                      failed, num_failures)
    select f.queue_name, f.priority, f.load_id, -count(*),
           count(*) filter (where f.status = 'Scheduled'),
           count(*) filter (where f.status = 'Pending'), count(*) filter (where f.status = 'Failed'),
           count(*)
      from failed f group by f.queue_name, f.priority, f.load_id)
  select coalesce(array_agg(f.request_id), '{}'),
         array_agg(f.request_id) filter (where f.cancel_requested),
         array_agg(f.queue_name) filter (where f.group_key is not null and f.status = 'Failed'),
         array_agg(f.group_key) filter (where f.group_key is not null and f.status = 'Failed'),
         array_agg(distinct f.queue_name) filter (where f.status = 'Pending'),
         array_agg(f.request_id) filter (where f.status = 'Failed')
    into v_done, v_cancel, v_queues, v_groups, v_wake, v_dead
    from failed f;
  perform rowlease_internal.trim_attempts(v_done);
  perform rowlease_internal.after_leases(v_queues, v_groups, v_cancel, v_wake, v_dead, v_now);
  return query select * from rowlease_internal.settled_outcomes(p_request_ids, p_lock_tokens, v_done);
end $$;
