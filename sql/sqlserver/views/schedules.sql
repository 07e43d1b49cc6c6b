-- schedules: a view of the schedules, with the next firing of each and the status of its last request.
-- params:   none
create or alter view rowlease.Schedules as
select s.ScheduleName, s.Cron, s.TimeZone, s.QueueName, s.Kind, s.Priority, s.Paused, s.NextTime,
       datediff_big(millisecond, n.Now, s.NextTime) / 1000 as LeftSeconds,
       s.LastTime, s.LastRequestId,
       coalesce((select q.Status from rowlease.Queue as q where q.RequestId = s.LastRequestId),
                (select top (1) h.Status from rowlease.QueueHistory as h
                  where h.RequestId = s.LastRequestId)) as LastStatus
  from (select rowlease.now() as Now) as n
 cross join rowlease.Schedule as s;
