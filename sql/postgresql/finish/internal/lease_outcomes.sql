-- lease_outcomes: compute the outcome of each request of a batch.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   none
-- locks:    none
-- why:      a call may be repeated after a lost answer: if the request is no longer leased, its
--           last token gets repeat, unless that lease was broken (then the row still has the time
--           of expiry). p_done_ids matches only with the valid token, because an old token may be
--           in the same batch.
create or replace function rowlease_internal.lease_outcomes(
  p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
) returns table (request_id bigint, outcome text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_mergejoin = off
as $$
begin
  if cardinality(p_done_ids) = cardinality(p_request_ids) then
    return query select u.id, 'ok'::text from unnest(p_request_ids) as u(id);
    return;
  end if;
  return query
    select g.id,
           case when coalesce(q.status, h.status) is null then 'not_found'
                when g.token = coalesce(q.lock_token, h.lock_token) and g.token > 0 then
                  case when d.id is not null then 'ok'
                       when h.status = 'Complete' then 'repeat'
                       when q.status <> 'Processing' and q.lock_expires_time is null then 'repeat'
                       when h.status = 'Cancelled' and h.lock_expires_time is null then 'repeat'
                       else 'lease_lost' end
                else 'lease_lost' end
      from unnest(p_request_ids, p_lock_tokens) with ordinality as g(id, token, place)
      left join unnest(p_done_ids) as d(id) on d.id = g.id
      left join rowlease.queue q on q.request_id = any(array[g.id])
      left join lateral (
        select f.status, f.lock_token, f.lock_expires_time from rowlease.queue_history f
         where q.request_id is null and f.request_id = g.id limit 1) h on true
     order by g.place;
end $$;
