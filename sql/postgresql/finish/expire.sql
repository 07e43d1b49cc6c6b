-- expire: cancel leased requests that were not to start any more; no attempt is counted.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order; held to the caller's commit
-- why:      a worker finds out at the claim, so that claims of other requests pay nothing. A request
--           whose cancellation is requested is cancelled when its lease is given up, also if the
--           worker ends before.
create or replace function rowlease.expire(p_request_ids bigint[], p_lock_tokens bigint[])
returns table (request_id bigint, outcome text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_lock_tokens));
  perform from unnest(p_request_ids, p_lock_tokens) as g(id, token)
    join rowlease.queue q on q.request_id = any(array[g.id])
   where q.lock_token = g.token and q.locked_by is not null
   order by g.id
     for no key update of q;
  update rowlease.queue q
     set cancel_requested = true, last_error = 'it expired before it started'
    from unnest(p_request_ids, p_lock_tokens) as g(id, token)
   where q.request_id = any(array[g.id]) and q.lock_token = g.token and q.locked_by is not null;
  return query select * from rowlease.abandon(p_request_ids, p_lock_tokens);
end $$;
