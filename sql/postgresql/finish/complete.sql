-- complete: finish leased requests, if the caller still holds their leases.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_results text[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   RL001 arrays of different lengths; 22P02 a result that is not JSON
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      the statement that deletes the row from queue compares the token, so there is no gap
--           between check and write. If the caller calls this in its own transaction, its effects
--           and the completion commit together. A request must not be lost if the settings of its
--           queue were deleted, so its payload is dropped only if settings exist and require it.
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
  v_size   integer := rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_results));
  v_done   bigint[];
  v_queues text[];
  v_groups text[];
begin
  if v_size = 1 then
    if rowlease_internal.complete_one(p_request_ids[1], p_lock_tokens[1], p_results[1], v_now) then
      v_done := p_request_ids;
    end if;
  elsif v_size > 1 then
    with done as (
      delete from rowlease.queue q
       using (select unnest(p_request_ids) as id, unnest(p_lock_tokens) as token,
                     unnest(p_results) as result
               order by 1) g
       where q.request_id = any(array[g.id]) and q.lock_token = g.token and q.locked_by is not null
      -- Columns of all rows come first: to read a column, PostgreSQL reads those before it.
      returning q.request_id, q.queue_name, q.priority, q.group_key, q.kind, q.requested_time,
                q.due_time, q.locked_by, q.locked_time, q.lock_expires_time, q.started_time,
                q.lock_token, q.num_attempts, q.max_attempts, q.num_crashes, q.num_abandons,
                q.retry_base_ms, q.dedup_key, q.load_id, q.payload, q.headers, q.last_error,
                q.cancel_requested, g.result,
                not (exists (select from rowlease.queue_settings s where not s.keep_history)
                     and q.queue_name in (select s.queue_name from rowlease.queue_settings s
                                           where not s.keep_history)) as keeps),
    kept as (
      insert into rowlease.queue_history (
        request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by,
        locked_time, lock_expires_time, started_time, lock_token, num_attempts, max_attempts,
        num_crashes, num_abandons, retry_base_ms, dedup_key, group_key, load_id, payload,
        headers, last_error, completion_time, cancel_requested, result)
      select d.request_id, d.queue_name, d.kind, 'Complete', d.priority, d.requested_time,
             d.due_time, d.locked_by, d.locked_time, d.lock_expires_time, d.started_time,
             d.lock_token, d.num_attempts, d.max_attempts, d.num_crashes, d.num_abandons,
             d.retry_base_ms, d.dedup_key, d.group_key, d.load_id,
             case when d.keeps then d.payload end, case when d.keeps then d.headers end,
             d.last_error, v_now, d.cancel_requested,
             case when d.keeps then d.result::json end
        from done d),
    counted as (
      insert into rowlease.queue_depth (queue_name, priority, load_id, processing, num_finished)
      select d.queue_name, d.priority, d.load_id, -count(*), count(*)
        from done d group by d.queue_name, d.priority, d.load_id)
    select array_agg(d.request_id),
           array_agg(d.queue_name) filter (where d.group_key is not null),
           array_agg(d.group_key) filter (where d.group_key is not null)
      into v_done, v_queues, v_groups
      from done d;
  end if;
  if v_groups is not null then
    perform rowlease_internal.unblock_groups(v_queues, v_groups);
  end if;
  if v_size > 1 and v_done is not null and rowlease_internal.somebody_waits() then
    perform rowlease_internal.announce_finished(v_done);
  end if;
  if cardinality(v_done) = v_size then
    outcome := 'ok';
    foreach request_id in array p_request_ids loop return next; end loop;
  else
    return query
      select * from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens,
                                                     coalesce(v_done, '{}'));
  end if;
end $$;
