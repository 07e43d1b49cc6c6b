-- list_leases: list the leases of running requests, in the order in which they end.
-- params:   p_limit int
create or alter procedure rowlease.list_leases @p_limit int = 100
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
select top (@p_limit)
       l.QueueName as queue_name, l.RequestId as request_id, l.Kind as kind, l.Priority as priority,
       l.LockedBy as locked_by, l.LockedTime as locked_time, l.StartedTime as started_time,
       l.LockExpiresTime as lock_expires_time,
       datediff_big(millisecond, n.Now, l.LockExpiresTime) / 1000 as left_seconds,
       l.NumAttempts as num_attempts, l.MaxAttempts as max_attempts,
       l.CancelRequested as cancel_requested
  from (select rowlease.now() as Now) as n
 cross join rowlease.QueueSettings as s
 cross apply (
   select top (@p_limit) e.* from rowlease.Queue as e
    where e.QueueName = s.QueueName and e.Status = 'Processing' order by e.LockExpiresTime, e.RequestId) as l
 order by l.LockExpiresTime, l.RequestId;
