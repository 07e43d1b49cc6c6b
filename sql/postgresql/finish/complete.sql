-- complete: finish leased requests, if the caller still holds their leases.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_results text[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   RL001 arrays of different lengths; 22P02 a result that is not JSON
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      the token is compared in the statement that moves the row to queue_history, so there is
--           no gap between check and write. In the caller's own transaction, its effects and the
--           completion commit together. Settings are an outer join: a request must not be lost if
--           the settings of its queue were deleted.
create or replace function rowlease.complete(
  p_request_ids bigint[], p_lock_tokens bigint[], p_results text[] default null
) returns table (request_id bigint, outcome text)
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
  v_queues text[];
  v_groups text[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_results));
  with given as materialized (
    select g.id, g.token, g.result
      from unnest(p_request_ids, p_lock_tokens, p_results) as g(id, token, result)
     order by g.id),
  done as (
    delete from rowlease.queue q using given g
     where q.request_id = any(array[g.id]) and q.lock_token = g.token and q.locked_by is not null
    returning q.*, g.result),
  kept as (
    insert into rowlease.queue_history (
      request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
      locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
      num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, load_id, payload, last_error,
      completion_time, cancel_requested, result)
    select d.request_id, d.queue_name, d.kind, 'Complete', d.priority, d.requested_time, d.due_time,
           d.locked_by, d.locked_time, d.lock_expires_time, d.started_time, d.lock_token,
           d.num_attempts, d.max_attempts, d.num_crashes, d.num_abandons, d.retry_base_ms,
           d.dedup_key, d.group_key, d.load_id,
           case when s.keep_history is not false then d.payload end,
           d.last_error, v_now, d.cancel_requested,
           case when s.keep_history is not false then d.result::json end
      from done d left join rowlease.queue_settings s on s.queue_name = d.queue_name
    returning request_id, queue_name, priority, group_key),
  counted as (
    insert into rowlease.queue_depth (queue_name, priority, processing, num_finished)
    select k.queue_name, k.priority, -count(*), count(*)
      from kept k group by k.queue_name, k.priority)
  select coalesce(array_agg(k.request_id), '{}'),
         array_agg(k.queue_name) filter (where k.group_key is not null),
         array_agg(k.group_key) filter (where k.group_key is not null)
    into v_done, v_queues, v_groups
    from kept k;
  if v_groups is not null then
    perform rowlease_internal.unblock_groups(v_queues, v_groups);
  end if;
  return query select * from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens, v_done);
end $$;
