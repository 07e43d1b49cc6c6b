-- requests: a view of every request: waiting, running, failed and finished.
-- params:   none
-- why:      one name for unfinished and finished requests, in the queue, in the lane or in the history.
--           A request in the lane is found by its id through LanePart: the key is not searched for an id
--           that is not between the first and the last of the part.
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
  from rowlease.QueueHistory
union all
select r.RequestId, l.QueueName, r.Kind, 'Pending', r.Priority, l.PromotedTime, l.PromotedTime, null, null,
       null, null, 0, 0, l.MaxAttempts, 0, 0, null, null, null, 0, 0, 0, l.LoadId, r.Payload, r.Headers,
       null, null, null, null
  from rowlease.[Load] as l
  join rowlease.LanePart as p on p.RunNumber = l.RunNumber
  join rowlease.Lane as r on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
                         and r.RequestId >= p.FirstId and r.RequestId <= p.LastId
 where l.InLane = 1;
