-- list_schedules: list every schedule, by name.
-- params:   none
-- returns:  schedule_name text, cron text, time_zone text, queue_name text, kind text, payload text,
--           priority integer, catch_up integer, paused boolean, next_time timestamptz (null: no
--           worker has planned it yet), last_time timestamptz, last_request_id bigint,
--           changed_time timestamptz, headers text
-- errors:   none
-- locks:    none
-- why:      it returns the columns of the table to programs that may not read tables; a DBA reads
--           the table.
create or replace function rowlease.list_schedules()
returns table (
  schedule_name text, cron text, time_zone text, queue_name text, kind text, payload text,
  priority integer, catch_up integer, paused boolean, next_time timestamptz,
  last_time timestamptz, last_request_id bigint, changed_time timestamptz, headers text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.schedule_name::text, s.cron::text, s.time_zone::text, s.queue_name::text, s.kind::text,
         s.payload::text, s.priority::integer, s.catch_up, s.paused, s.next_time, s.last_time,
         s.last_request_id, s.changed_time, s.headers::text
    from rowlease.schedule s order by s.schedule_name;
$$;
