-- list_workers: list every registered worker, by host and process.
-- params:   none
-- returns:  worker_id text, host text, pid integer, version text, queue_names text (JSON),
--           slots integer, busy integer, consumer_priority integer, started_time timestamptz,
--           silent_ms bigint (since the last heartbeat)
-- errors:   none
-- locks:    none
-- why:      it returns the columns of the table, and the time since the last heartbeat by the
--           database's clock. A worker sends a heartbeat every 5 s; a worker that was killed stays
--           in the list for an hour.
create or replace function rowlease.list_workers()
returns table (
  worker_id text, host text, pid integer, version text, queue_names text, slots integer,
  busy integer, consumer_priority integer, started_time timestamptz, silent_ms bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select w.worker_id::text, w.host::text, w.pid, w.version::text, w.queue_names::text, w.slots,
         w.busy, w.consumer_priority, w.started_time,
         greatest(0, extract(epoch from rowlease.now() - w.heartbeat_time) * 1000)::bigint
    from rowlease.worker w order by w.host, w.pid, w.worker_id;
$$;
