-- overdue: a view of the leases that ran out and that no claim has broken yet.
-- params:   none
create or alter view rowlease.Overdue as
select q.QueueName, q.RequestId, q.Kind, q.LockedBy, q.LockExpiresTime,
       datediff_big(millisecond, q.LockExpiresTime, n.Now) / 1000 as OverdueSeconds,
       w.HeartbeatTime
  from (select rowlease.now() as Now) as n
 cross join rowlease.QueueSettings as s
 cross apply (
   select top (10000) e.QueueName, e.RequestId, e.Kind, e.LockedBy, e.LockExpiresTime
     from rowlease.Queue as e
    where e.QueueName = s.QueueName and e.Status = 'Processing' and e.LockExpiresTime <= n.Now
    order by e.LockExpiresTime) as q
  left join rowlease.Worker as w on w.WorkerId = q.LockedBy;
