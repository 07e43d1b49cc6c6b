-- decline: give up leases of requests of unknown kinds; no attempt is counted.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_errors text[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', and
--           dead boolean (it is a dead letter now), in the order given
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order; then rows of unknown_kind, by queue and kind;
--           held to the caller's commit
-- why:      another worker may know the kind, and claims the request at once (wake_declined).
--           For others it is due again a little later: after 30 s if a live worker knows the kind;
--           otherwise after a quarter of the time for which no live worker has known it, 1 to 30 s.
--           It becomes a dead letter when that time reaches the queue's unknown_kind_seconds. Time
--           without a decline does not count, because no worker may have tried.
create or replace function rowlease.decline(
  p_request_ids bigint[], p_lock_tokens bigint[], p_errors text[]
) returns table (request_id bigint, outcome text, dead boolean)
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
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_errors));
  perform from unnest(p_request_ids, p_lock_tokens) as g(id, token)
    join rowlease.queue q on q.request_id = any(array[g.id])
   where q.lock_token = g.token and q.locked_by is not null
   order by g.id
     for no key update of q;
  with held as materialized (
    select g.id, g.token, left(g.error, 8000) as error, q.queue_name, q.kind, q.cancel_requested
      from unnest(p_request_ids, p_lock_tokens, p_errors) as g(id, token, error)
      join rowlease.queue q on q.request_id = any(array[g.id])
     where q.lock_token = g.token and q.locked_by is not null),
  kinds as materialized (
    select k.queue_name, k.kind, n.delay_ms, n.verdict
      from (select distinct h.queue_name, h.kind from held h order by h.queue_name, h.kind) k
     cross join lateral rowlease_internal.note_unknown(k.queue_name, k.kind, v_now) n),
  judged as materialized (
    select h.*, k.delay_ms, k.verdict, k.verdict is not null and not h.cancel_requested as is_dead
      from held h join kinds k on k.queue_name = h.queue_name and k.kind = h.kind),
  declined as (
    update rowlease.queue q
       set status = case when j.is_dead then 'Failed' else 'Scheduled' end,
           due_time = case when j.is_dead or j.cancel_requested then q.due_time
                           else v_now + j.delay_ms * interval '1 ms' end,
           locked_time = q.due_time, returned = not j.is_dead,
           completion_time = case when j.is_dead then v_now end,
           last_error = coalesce(j.verdict, j.error), num_attempts = q.num_attempts - 1,
           locked_by = null, lock_expires_time = null, started_time = null,
           cancel_requested = false
      from judged j
     where q.request_id = any(array[j.id]) and q.lock_token = j.token and q.locked_by is not null
    returning q.request_id, q.queue_name, q.priority, q.load_id, q.status, q.group_key,
              j.cancel_requested),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, load_id, processing, scheduled, failed,
                                      num_failures)
    select d.queue_name, d.priority, d.load_id, -count(*), count(*) filter (where d.status = 'Scheduled'),
           count(*) filter (where d.status = 'Failed'), count(*) filter (where d.status = 'Failed')
      from declined d group by d.queue_name, d.priority, d.load_id)
  select coalesce(array_agg(d.request_id), '{}'),
         array_agg(d.request_id) filter (where d.cancel_requested),
         array_agg(d.queue_name) filter (where d.group_key is not null and d.status = 'Failed'),
         array_agg(d.group_key) filter (where d.group_key is not null and d.status = 'Failed'),
         array_agg(distinct d.queue_name) filter (where d.status = 'Scheduled'),
         array_agg(d.request_id) filter (where d.status = 'Failed')
    into v_done, v_cancel, v_queues, v_groups, v_wake, v_dead
    from declined d;
  perform rowlease_internal.after_leases(v_queues, v_groups, v_cancel, v_wake, v_dead, v_now);
  return query select * from rowlease_internal.settled_outcomes(p_request_ids, p_lock_tokens, v_done);
end $$;
