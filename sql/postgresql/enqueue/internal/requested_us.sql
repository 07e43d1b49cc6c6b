-- requested_us: when a request was enqueued.
-- params:   p_request_id bigint
-- returns:  bigint -- microseconds since 1970; null if there is no such request
-- errors:   none
-- locks:    none
-- why:      an enqueue that finds an earlier request answers with the time of that one.
create or replace function rowlease_internal.requested_us(p_request_id bigint) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  select (extract(epoch from r.requested_time) * 1000000)::bigint
    from rowlease.requests r where r.request_id = p_request_id limit 1
$$;
