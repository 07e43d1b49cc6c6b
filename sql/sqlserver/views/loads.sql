-- loads: a view of the loads, with their progress and their speed.
-- params:   none
create or alter view rowlease.Loads as
select l.LoadId, l.QueueName, l.Status, l.RunBy, l.NumRows, l.NumStaged, l.NumEnqueued,
       l.NumDuplicates, l.NumClamped, l.RowsPerSecond, l.StartedTime, l.ReportedTime,
       l.PromotedTime,
       case when l.Status = 'Staging' then datediff_big(millisecond, l.ReportedTime, n.Now) / 1000 end
         as SilentSeconds,
       l.RunNumber
  from (select rowlease.now() as Now) as n
 cross join rowlease.[Load] as l;
