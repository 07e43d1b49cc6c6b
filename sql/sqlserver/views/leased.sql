-- leased: a view of the leases: which worker holds which request, and for how long.
-- params:   none
create or alter view rowlease.Leased as
select q.QueueName, q.RequestId, q.Kind, q.Priority, q.LockedBy, q.LockedTime, q.StartedTime,
       q.LockExpiresTime,
       datediff_big(millisecond, n.Now, q.LockExpiresTime) / 1000 as LeftSeconds,
       q.NumAttempts, q.MaxAttempts, q.CancelRequested
  from (select rowlease.now() as Now) as n
 cross join rowlease.QueueSettings as s
 cross apply (
   select top (10000) e.QueueName, e.RequestId, e.Kind, e.Priority, e.LockedBy, e.LockedTime,
          e.StartedTime, e.LockExpiresTime, e.NumAttempts, e.MaxAttempts, e.CancelRequested
     from rowlease.Queue as e
    where e.QueueName = s.QueueName and e.Status = 'Processing'
    order by e.LockExpiresTime) as q;
