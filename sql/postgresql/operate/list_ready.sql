-- list_ready: list the requests of a queue that claims take next.
-- params:   p_queue_name text, p_limit integer (at most 1,000 are returned)
-- returns:  place bigint (1 is the next), request_id bigint, kind text, priority integer,
--           due_time timestamptz, waiting_seconds bigint (since it was due)
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view ready, which reads indexes in their order. An unknown or a
--           paused queue has none.
create or replace function rowlease.list_ready(p_queue_name text, p_limit integer default 20)
returns table (
  place bigint, request_id bigint, kind text, priority integer, due_time timestamptz,
  waiting_seconds bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  select r.place, r.request_id, r.kind::text, r.priority::integer, r.due_time, r.waiting_seconds
    from rowlease.ready r
   where r.queue_name = p_queue_name
   order by r.place limit p_limit;
$$;
