-- get_request: show one request.
-- params:   p_request_id bigint
-- returns:  request_id bigint, queue_name text, kind text, status text, priority integer,
--           due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
--           last_error text, result text -- no row if there is no such request
-- errors:   none
-- locks:    none
-- why:      it reads by key, so a program may call it repeatedly until a request is finished.
create or replace function rowlease.get_request(p_request_id bigint)
returns table (
  request_id bigint, queue_name text, kind text, status text, priority integer,
  due_time timestamptz, dedup_key text, group_key text, num_attempts integer, payload text,
  last_error text, result text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set jit = off set enable_seqscan = off
as $$
  select r.request_id, r.queue_name::text, r.kind::text, r.status::text, r.priority::integer,
         r.due_time, r.dedup_key::text, r.group_key::text, r.num_attempts, r.payload::text,
         r.last_error, r.result::text
    from rowlease.requests r
   where r.request_id = p_request_id
$$;
