-- overdue: a view of the leases that ran out and that no claim has broken yet.
-- params:   none
-- returns:  queue_name, request_id, kind, locked_by, lock_expires_time, overdue_seconds (since the
--           lease ran out), heartbeat_time (of that worker; null: it is not registered)
-- errors:   none
-- locks:    none
-- why:      claims and maintain break such a lease within seconds. A row that stays means that no
--           worker calls maintain, or that another session has locked the request: see explain. It
--           reads the index of leases, for each queue up to now.
create or alter view rowlease.Overdue as
select q.QueueName, q.RequestId, q.Kind, q.LockedBy, q.LockExpiresTime,
       datediff_big(millisecond, q.LockExpiresTime, n.Now) / 1000 as OverdueSeconds,
       w.HeartbeatTime
  from (select rowlease.now() as Now) as n
 cross join rowlease.QueueSettings as s
  join rowlease.Queue as q on q.QueueName = s.QueueName and q.Status = 'Processing'
                          and q.LockExpiresTime <= n.Now
  left join rowlease.Worker as w on w.WorkerId = q.LockedBy;
