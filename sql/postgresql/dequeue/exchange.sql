-- exchange: report outcomes and lease more requests, in one round trip.
-- params:   p_worker_id text, p_queue_names text[], p_limit integer (0: lease nothing),
--           p_slots integer, p_lease_ms bigint, p_floor text, p_complete_ids bigint[],
--           p_complete_tokens bigint[], p_results text[], p_fail_ids bigint[],
--           p_fail_tokens bigint[], p_errors text[], p_retries_ms bigint[], p_dead boolean[],
--           p_error_types text[], p_tracebacks text[]
-- returns:  the columns of dequeue, dead boolean and outcome text: first a row for each completed
--           request, then a row for each failed one, with its id, dead and outcome; then the rows of
--           dequeue
-- errors:   as complete, fail and dequeue
-- locks:    rows of queue that are completed or failed, exclusive, in request order; then as dequeue
-- why:      a busy worker pays one round trip and one commit per batch instead of three. Completed
--           and failed requests are locked together, in the order that operate and other routines
--           use, to prevent deadlocks.
create or replace function rowlease.exchange(
  p_worker_id text, p_queue_names text[], p_limit integer, p_slots integer default null,
  p_lease_ms bigint default null, p_floor text default null,
  p_complete_ids bigint[] default '{}', p_complete_tokens bigint[] default '{}',
  p_results text[] default null, p_fail_ids bigint[] default '{}',
  p_fail_tokens bigint[] default '{}', p_errors text[] default null,
  p_retries_ms bigint[] default null, p_dead boolean[] default null,
  p_error_types text[] default null, p_tracebacks text[] default null
) returns table (
  request_id bigint, queue_name text, kind text, priority integer, requested_time timestamptz,
  due_time timestamptz, locked_time timestamptz, lock_expires_time timestamptz, lock_token bigint,
  num_attempts integer, max_attempts integer, num_crashes integer, group_key text, load_id text,
  payload text, headers text, more boolean, wait_ms bigint, floor text, dead boolean, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  if cardinality(p_complete_ids) > 0 and cardinality(p_fail_ids) > 0 then
    perform from unnest(p_complete_ids || p_fail_ids, p_complete_tokens || p_fail_tokens)
                 as g(id, token)
      join rowlease.queue q on q.request_id = any(array[g.id])
     where q.lock_token = g.token and q.locked_by is not null
     order by g.id
       for no key update of q;
  end if;
  if cardinality(p_complete_ids) = 1 and cardinality(p_complete_tokens) = 1
     and coalesce(cardinality(p_results), 1) = 1
     and rowlease_internal.complete_one(p_complete_ids[1], p_complete_tokens[1], p_results[1],
                                        rowlease.now()) then
    request_id := p_complete_ids[1];
    outcome := 'ok';
    return next;
  elsif cardinality(p_complete_ids) > 0 then
    return query
      select c.request_id, null::text, null::text, null::integer, null::timestamptz,
             null::timestamptz, null::timestamptz, null::timestamptz, null::bigint, null::integer,
             null::integer, null::integer, null::text, null::text, null::text, null::text, null::boolean,
             null::bigint, null::text, null::boolean, c.outcome
        from rowlease.complete(p_complete_ids, p_complete_tokens, p_results) c;
  end if;
  if cardinality(p_fail_ids) > 0 then
    for request_id, outcome, dead in
      select f.request_id, f.outcome, f.dead
        from rowlease.fail(p_fail_ids, p_fail_tokens, p_errors, p_retries_ms, p_dead, p_error_types,
                           p_tracebacks) f
    loop return next; end loop;
  end if;
  if p_limit > 0 then
    return query
      select d.*, null::boolean, null::text
        from rowlease.dequeue(p_worker_id, p_queue_names, p_limit, p_slots, p_lease_ms, p_floor) d;
  end if;
end $$;
