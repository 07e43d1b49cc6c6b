-- lease_outcomes: what to tell the callers of a batch, row by row.
-- params:   p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
-- returns:  request_id bigint, outcome text -- 'ok' | 'repeat' | 'lease_lost' | 'not_found', in the
--           order given
-- errors:   none
-- locks:    none
-- why:      an answer that got lost may be asked for again: the same token on a request that is
--           not leased any more says repeat, unless its lease was broken (then the time of its
--           expiry was left on the row).
create or replace function rowlease.lease_outcomes(
  p_request_ids bigint[], p_lock_tokens bigint[], p_done_ids bigint[]
) returns table (request_id bigint, outcome text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_mergejoin = off
as $$
begin
  if cardinality(p_done_ids) = cardinality(p_request_ids) then
    return query select u.id, 'ok'::text from unnest(p_request_ids) as u(id);
    return;
  end if;
  return query
    select g.id,
           case when d.id is not null then 'ok'
                when q.request_id is not null then
                  case when q.lock_token = g.token and q.status <> 'Processing'
                            and q.lock_expires_time is null then 'repeat' else 'lease_lost' end
                when h.lock_token = g.token then 'repeat'
                when h.lock_token is not null then 'lease_lost'
                else 'not_found' end
      from unnest(p_request_ids, p_lock_tokens) with ordinality as g(id, token, place)
      left join unnest(p_done_ids) as d(id) on d.id = g.id
      left join rowlease.queue q on d.id is null and q.request_id = g.id
      left join lateral (
        select f.lock_token from rowlease.queue_history f
         where d.id is null and q.request_id is null and f.request_id = g.id limit 1) h on true
     order by g.place;
end $$;
