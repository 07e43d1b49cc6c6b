-- settled_outcomes: compute the outcome of each failed request of a batch, and whether it is a dead letter.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
-- returns:  request_id bigint, outcome text, dead boolean (it is a dead letter), in the order given
-- errors:   none
-- locks:    none
-- why:      the caller of fail or decline does not know the limits that decide whether a request
--           becomes a dead letter. A repeated call after a lost answer returns the same.
create or replace function rowlease_internal.settled_outcomes(
  p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
) returns table (request_id bigint, outcome text, dead boolean)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  select o.request_id, o.outcome,
         o.outcome in ('ok', 'repeat') and exists (
           select from rowlease.queue q
            where q.request_id = any(array[o.request_id]) and q.status = 'Failed')
    from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens, p_done_ids) o
$$;
