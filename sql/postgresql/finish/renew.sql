-- renew: renew leases, all leases of a worker in one statement.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_lease_ms bigint (null: the queue's
--           setting), p_started boolean[] (whether the request has begun to run)
-- returns:  request_id bigint, outcome text -- 'ok' | 'cancel_requested' | 'busy' | 'repeat' |
--           'lease_lost' | 'not_found', lock_expires_time timestamptz (for ok and
--           cancel_requested), kills boolean (for cancel_requested: whether to end the task at once)
-- errors:   RL001 arrays of different lengths
-- locks:    rows of queue, exclusive, in request order, skipping locked ones
-- why:      a claim can only assume that a request starts at once, so a renewal that denies it takes
--           the start back: if the lease runs out then, this is no crash. A locked row is being
--           finished, perhaps in a long transaction; the other leases must not wait for that row
--           (busy). A lease counts from the write of its row, so that a delayed call does not make it
--           shorter than a later call has made it. A lease that has run out but has not been broken
--           yet is renewed, because no other worker has the request.
create or replace function rowlease.renew(
  p_request_ids bigint[], p_lock_tokens bigint[], p_lease_ms bigint default null,
  p_started boolean[] default null
) returns table (request_id bigint, outcome text, lock_expires_time timestamptz, kills boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now       timestamptz := rowlease.now();
  v_done      bigint[];
  v_expires   timestamptz[];
  v_cancelled boolean[];
begin
  perform rowlease_internal.check_arrays(p_request_ids, p_lock_tokens, cardinality(p_started));
  with held as materialized (
    select q.request_id, g.token, coalesce(g.started, true) as started, s.lease_seconds
      from unnest(p_request_ids, p_lock_tokens, p_started) as g(id, token, started)
      join rowlease.queue q on q.request_id = any(array[g.id])
      join rowlease.queue_settings s on s.queue_name = q.queue_name
     where q.lock_token = g.token and q.locked_by is not null
     order by g.id
       for no key update of q skip locked),
  renewed as (
    update rowlease.queue q
       set lock_expires_time = rowlease.now()
                               + coalesce(p_lease_ms, h.lease_seconds * 1000::bigint)
                                 * interval '1 ms',
           started_time = case when h.started then coalesce(q.started_time, v_now) end
      from held h
     where q.request_id = any(array[h.request_id]) and q.lock_token = h.token and q.locked_by is not null
    returning q.request_id, q.lock_expires_time, q.cancel_requested)
  select coalesce(array_agg(r.request_id), '{}'), array_agg(r.lock_expires_time),
         array_agg(r.cancel_requested)
    into v_done, v_expires, v_cancelled
    from renewed r;
  return query
    select o.request_id,
           case when r.cancelled then 'cancel_requested'
                when o.outcome = 'lease_lost' and q.request_id is not null then 'busy'
                else o.outcome end,
           r.expires,
           r.cancelled and exists (select from rowlease.cancellation c
                                    where c.request_id = o.request_id and c.kills)
      from rowlease_internal.lease_outcomes(p_request_ids, p_lock_tokens, v_done)
           with ordinality as o(request_id, outcome, place)
      left join unnest(v_done, v_expires, v_cancelled) as r(id, expires, cancelled)
             on r.id = o.request_id and o.outcome = 'ok'
      left join rowlease.queue q
             on r.id is null and q.request_id = any(array[o.request_id]) and q.locked_by is not null
            and q.lock_token = p_lock_tokens[o.place]
     order by o.place;
end $$;
