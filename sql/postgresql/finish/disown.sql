-- disown: give up a worker's leases in these queues, except those the worker lists.
-- params:   p_worker_id text, p_queue_names text[], p_request_ids bigint[], p_lock_tokens bigint[]
-- returns:  request_id bigint, outcome text -- as abandon, for each request that the worker did
--           not list
-- errors:   as abandon
-- locks:    as abandon
-- why:      if a claim commits but its answer is lost, it leaves leased requests that no worker
--           knows about. Their leases would run out and count as crashes. A request being finished
--           concurrently is safe: abandon compares tokens under the lock of the row. NOT IN uses a
--           hash; an anti join with arrays of unknown length would use a nested loop.
create or replace function rowlease.disown(
  p_worker_id text, p_queue_names text[], p_request_ids bigint[], p_lock_tokens bigint[]
) returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_ids    bigint[];
  v_tokens bigint[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_lock_tokens));
  select coalesce(array_agg(q.request_id), '{}'), coalesce(array_agg(q.lock_token), '{}')
    into v_ids, v_tokens
    from unnest(p_queue_names) n
    join rowlease.queue q on q.queue_name = any(array[n]) and q.status = 'Processing'
   where q.locked_by = p_worker_id
     and (q.request_id, q.lock_token) not in (
           select h.id, h.token from unnest(p_request_ids, p_lock_tokens) as h(id, token));
  return query select a.request_id, a.outcome from rowlease.abandon(v_ids, v_tokens) a;
end $$;
