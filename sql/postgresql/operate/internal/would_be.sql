-- would_be: return the outcome that an operation would have for each request; the dry run of operate.
-- params:   p_verb text, p_request_ids bigint[]
-- returns:  request_id bigint, outcome text -- as of operate
-- errors:   none
-- locks:    none
-- why:      a dry run must not hold up workers, so it locks and writes nothing.
create or replace function rowlease_internal.would_be(p_verb text, p_request_ids bigint[])
returns table (request_id bigint, outcome text)
language sql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  select u.id,
         case when p_verb = 'cancel' and r.status = 'Processing' then 'cancel_requested'
              when p_verb = 'requeue'
                   and (r.payload is null or not exists (
                          select from rowlease.queue_settings s where s.queue_name = r.queue_name))
              then 'not_found'
              when p_verb = 'requeue' and r.dedup_key is not null
                   and (exists (select from rowlease.queue q
                                 where q.queue_name = r.queue_name and q.dedup_key = r.dedup_key
                                   and q.status <> 'Failed')
                        or row_number() over (partition by r.queue_name, r.dedup_key order by u.id) > 1)
              then 'duplicate' else 'ok' end
    from unnest(p_request_ids) with ordinality as u(id, place)
   cross join lateral (select * from rowlease.requests r where r.request_id = u.id limit 1) r
   order by u.place
$$;
