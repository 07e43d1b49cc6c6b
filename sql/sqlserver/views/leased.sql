-- leased: a view of the leases: which worker holds which request, and for how long.
-- params:   none
-- returns:  queue_name, request_id, kind, priority, locked_by, locked_time, started_time,
--           lock_expires_time, left_seconds (until the lease ends; below 0 if it ran out),
--           num_attempts, max_attempts, cancel_requested
-- errors:   none
-- locks:    none
-- why:      it reads every lease by an index: as many as workers have slots and prefetch. list_leases
--           reads only those that end first.
create or alter view rowlease.Leased as
select q.QueueName, q.RequestId, q.Kind, q.Priority, q.LockedBy, q.LockedTime, q.StartedTime,
       q.LockExpiresTime,
       datediff_big(millisecond, n.Now, q.LockExpiresTime) / 1000 as LeftSeconds,
       q.NumAttempts, q.MaxAttempts, q.CancelRequested
  from (select rowlease.now() as Now) as n
 cross join rowlease.Queue as q
 where q.Status = 'Processing';
