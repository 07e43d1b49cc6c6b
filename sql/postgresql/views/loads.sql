-- loads: a view of the loads, with their progress and their speed.
-- params:   none
-- returns:  load_id, queue_name, status, run_by, num_rows, num_staged, num_enqueued, num_duplicates,
--           num_clamped, rows_per_second, started_time, reported_time, promoted_time,
--           silent_seconds (since its run last reported progress; null: it is promoted), run_number
-- errors:   none
-- locks:    none
-- why:      it reads one row for each load, and none of their rows.
create or replace view rowlease.loads as
select l.load_id, l.queue_name, l.status, l.run_by, l.num_rows, l.num_staged, l.num_enqueued,
       l.num_duplicates, l.num_clamped, l.rows_per_second, l.started_time, l.reported_time,
       l.promoted_time,
       case l.status when 'Staging' then trunc(extract(epoch from n.now - l.reported_time))::bigint end
         as silent_seconds,
       l.run_number
  from (select rowlease.now() as now) n
 cross join rowlease.load l;
