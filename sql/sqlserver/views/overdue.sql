-- overdue: a view of the leases that ran out and that no claim has broken yet.
-- params:   none
-- returns:  queue_name, request_id, kind, locked_by, lock_expires_time, overdue_seconds (since the
--           lease ran out), heartbeat_time (of that worker; null: it is not registered)
-- errors:   none
-- locks:    none
-- why:      claims and maintain break such a lease within seconds. A row that stays means that no
--           worker calls maintain, or that another session has locked the request: see explain. It
--           reads at most 10,000 leases of each queue, by the index of leases.
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
