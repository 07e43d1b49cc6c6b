-- list_loads: list the loads, the newest first.
-- params:   p_limit integer
-- returns:  load_id text, queue_name text, status text, run_by text, num_rows bigint,
--           num_staged bigint, num_enqueued bigint, num_duplicates bigint, num_clamped bigint,
--           rows_per_second bigint, started_time timestamptz, reported_time timestamptz,
--           promoted_time timestamptz, silent_seconds bigint (since its run last reported progress;
--           null: it is promoted), run_number bigint
-- errors:   none
-- locks:    none
-- why:      it returns the rows of the view loads, and reads no row of a load.
create or replace function rowlease.list_loads(p_limit integer default 100)
returns table (
  load_id text, queue_name text, status text, run_by text, num_rows bigint, num_staged bigint,
  num_enqueued bigint, num_duplicates bigint, num_clamped bigint, rows_per_second bigint,
  started_time timestamptz, reported_time timestamptz, promoted_time timestamptz,
  silent_seconds bigint, run_number bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select l.load_id::text, l.queue_name::text, l.status::text, l.run_by::text, l.num_rows,
         l.num_staged, l.num_enqueued, l.num_duplicates, l.num_clamped,
         l.rows_per_second::bigint, l.started_time, l.reported_time, l.promoted_time,
         l.silent_seconds, l.run_number
    from rowlease.loads l
   order by l.started_time desc, l.load_id limit p_limit;
$$;
