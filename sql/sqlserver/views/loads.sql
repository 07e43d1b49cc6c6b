-- loads: a view of the loads, with their progress and their speed.
-- params:   none
-- returns:  load_id, queue_name, status, run_by, num_rows, num_staged, num_enqueued, num_duplicates,
--           num_clamped, rows_per_second, started_time, reported_time, promoted_time,
--           silent_seconds (since its run last reported progress; null: it is promoted), run_number
-- errors:   none
-- locks:    none
-- why:      it reads one row for each load, and none of their rows.
create or alter view rowlease.Loads as
select l.LoadId, l.QueueName, l.Status, l.RunBy, l.NumRows, l.NumStaged, l.NumEnqueued,
       l.NumDuplicates, l.NumClamped, l.RowsPerSecond, l.StartedTime, l.ReportedTime,
       l.PromotedTime,
       case when l.Status = 'Staging' then datediff_big(millisecond, l.ReportedTime, n.Now) / 1000 end
         as SilentSeconds,
       l.RunNumber
  from (select rowlease.now() as Now) as n
 cross join rowlease.[Load] as l;
