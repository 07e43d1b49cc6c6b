-- requests: a view of every request: waiting, running, failed and finished.
-- params:   none
-- returns:  the columns of queue_history, and error_line (the first line of last_error)
-- errors:   none
-- locks:    none
-- why:      one name for unfinished and finished requests.
create or alter view rowlease.Requests as
select RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, LockedBy, LockedTime,
       LockExpiresTime, StartedTime, LockToken, NumAttempts, MaxAttempts, NumCrashes, NumAbandons,
       RetryBaseMs, DedupKey, GroupKey, GroupBlocked, Returned, CancelRequested, LoadId, Payload,
       Headers, LastError, CompletionTime, cast(null as nvarchar(max)) as Result,
       left(LastError, charindex(nchar(10), LastError + nchar(10)) - 1) as ErrorLine
  from rowlease.Queue
union all
select RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, LockedBy, LockedTime,
       LockExpiresTime, StartedTime, LockToken, NumAttempts, MaxAttempts, NumCrashes, NumAbandons,
       RetryBaseMs, DedupKey, GroupKey, GroupBlocked, Returned, CancelRequested, LoadId, Payload,
       Headers, LastError, CompletionTime, Result,
       left(LastError, charindex(nchar(10), LastError + nchar(10)) - 1)
  from rowlease.QueueHistory;
