-- list_leases: list the leases of running requests, in the order in which they end.
-- params:   p_limit integer
-- returns:  queue_name text, request_id bigint, kind text, priority integer, locked_by text,
--           locked_time timestamptz, started_time timestamptz, lock_expires_time timestamptz,
--           left_seconds bigint (below 0: the lease ran out), num_attempts integer,
--           max_attempts integer, cancel_requested boolean
-- errors:   none
-- locks:    none
-- why:      it returns what the view leased has. From each queue, it reads only those that end first,
--           in the order of an index.
create or replace function rowlease.list_leases(p_limit integer default 100)
returns table (
  queue_name text, request_id bigint, kind text, priority integer, locked_by text,
  locked_time timestamptz, started_time timestamptz, lock_expires_time timestamptz,
  left_seconds bigint, num_attempts integer, max_attempts integer, cancel_requested boolean)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off
as $$
  select l.queue_name::text, l.request_id, l.kind::text, l.priority::integer, l.locked_by::text,
         l.locked_time, l.started_time, l.lock_expires_time,
         trunc(extract(epoch from l.lock_expires_time - n.now))::bigint, l.num_attempts,
         l.max_attempts, l.cancel_requested
    from (select rowlease.now() as now) n
   cross join rowlease.queue_settings s
   cross join lateral (
     select * from rowlease.queue e where e.queue_name = s.queue_name and e.status = 'Processing'
      order by e.lock_expires_time, e.request_id limit p_limit) l
   order by l.lock_expires_time, l.request_id limit p_limit;
$$;
