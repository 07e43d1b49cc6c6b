-- list_dead_letters: list the dead letters, grouped by their error, the largest group first.
-- params:   p_limit integer (how many groups)
-- returns:  queue_name text, kind text, error_pattern text, num_requests bigint,
--           first_time timestamptz (when the first of them failed for good),
--           last_time timestamptz (when the last did), last_request_id bigint (one of them)
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view dead_letters, which reads the newest 10,000.
create or replace function rowlease.list_dead_letters(p_limit integer default 100)
returns table (
  queue_name text, kind text, error_pattern text, num_requests bigint, first_time timestamptz,
  last_time timestamptz, last_request_id bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
  select d.queue_name::text, d.kind::text, d.error_pattern, d.num_requests, d.first_time, d.last_time,
         d.last_request_id
    from rowlease.dead_letters d
   order by d.num_requests desc, d.last_request_id desc limit p_limit;
$$;
