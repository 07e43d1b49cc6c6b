-- abandon: give leases up, so that the requests wait again; no attempt is counted.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      the request keeps its place in the order. The tenth consecutive abandon counts as an
--           attempt, so that a request that every worker rejects eventually becomes a dead letter.
create or replace function rowlease.abandon(p_request_ids bigint[], p_lock_tokens bigint[])
returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now    timestamptz := rowlease.now();
  v_done   bigint[];
  v_cancel bigint[];
  v_queues text[];
  v_groups text[];
  v_wake   text[];
  v_dead   bigint[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_lock_tokens));
  with given as materialized (
    select g.id, g.token from unnest(p_request_ids, p_lock_tokens) as g(id, token) order by g.id),
  judged as materialized (
    select g.id, g.token, q.cancel_requested, q.num_attempts, q.locked_by, q.locked_time,
           q.started_time, q.num_abandons >= 9 as counts,
           q.num_abandons >= 9 and q.num_attempts >= q.max_attempts and not q.cancel_requested
             as is_dead
      from given g join rowlease.queue q on q.request_id = any(array[g.id])
     where q.lock_token = g.token and q.locked_by is not null
     order by g.id
       for no key update of q),
  handed as (
    update rowlease.queue q
       set status = case when j.is_dead then 'Failed' else 'Pending' end, returned = not j.is_dead,
           completion_time = case when j.is_dead then v_now end,
           last_error = case when j.is_dead
             then 'no attempts left: abandoned ten times in a row' else q.last_error end,
           num_attempts = q.num_attempts - (not j.counts)::int,
           num_abandons = case when j.counts then 0 else q.num_abandons + 1 end,
           locked_by = null, lock_expires_time = null, started_time = null,
           cancel_requested = false
      from judged j
     where q.request_id = any(array[j.id]) and q.lock_token = j.token and q.locked_by is not null
    returning q.request_id, q.queue_name, q.priority, q.load_id, q.status, q.group_key,
              j.cancel_requested),
  kept as (
    insert into rowlease.attempt (request_id, lock_token, attempt_number, worker_id, started_time,
                                  ended_time, outcome, expires_time)
    select j.id, j.token, j.num_attempts, j.locked_by, coalesce(j.started_time, j.locked_time),
           v_now, 'abandoned', v_now + interval '1 day'
      from judged j where j.started_time is not null or j.counts
        on conflict do nothing),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, processing, pending, failed)
    select h.queue_name, h.priority, h.load_id, -count(*), count(*) filter (where h.status = 'Pending'),
           count(*) filter (where h.status = 'Failed')
      from handed h group by h.queue_name, h.priority, h.load_id)
  select coalesce(array_agg(h.request_id), '{}'),
         array_agg(h.request_id) filter (where h.cancel_requested),
         array_agg(h.queue_name) filter (where h.group_key is not null and h.status = 'Failed'),
         array_agg(h.group_key) filter (where h.group_key is not null and h.status = 'Failed'),
         array_agg(distinct h.queue_name) filter (where h.status = 'Pending'),
         array_agg(h.request_id) filter (where h.status = 'Failed')
    into v_done, v_cancel, v_queues, v_groups, v_wake, v_dead
    from handed h;
  perform rowlease_internal.trim_attempts(v_done);
  perform rowlease_internal.after_leases(v_queues, v_groups, v_cancel, v_wake, v_dead, v_now);
  return query select * from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens, v_done);
end $$;
