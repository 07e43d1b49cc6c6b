-- take_out: move cancelled requests to the history.
-- params:   p_request_ids nvarchar(max), p_groups nvarchar(max), p_now datetime2(6)
-- returns:  nothing
-- errors:   none
-- locks:    none: the caller has locked the rows and their groups
-- why:      used by operate, and when a running request ends whose cancellation was requested.
create or alter procedure rowlease_internal.take_out
  @p_request_ids nvarchar(max), @p_groups nvarchar(max), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
if @p_request_ids is null
  return;
declare @gone table (RequestId bigint not null primary key);
insert into @gone (RequestId)
select distinct q.RequestId
  from openjson(@p_request_ids) as i
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
    on q.RequestId = cast(i.value as bigint)
 where q.LockedBy is null;
insert into rowlease.QueueHistory (
  RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, LockedBy, LockedTime,
  LockExpiresTime, StartedTime, LockToken, NumAttempts, MaxAttempts, NumCrashes, NumAbandons,
  RetryBaseMs, DedupKey, GroupKey, LoadId, Payload, Headers, LastError, CompletionTime,
  CancelRequested)
select q.RequestId, q.QueueName, q.Kind, 'Cancelled', q.Priority, q.RequestedTime, q.DueTime,
       q.LockedBy, q.LockedTime, q.LockExpiresTime, q.StartedTime, q.LockToken, q.NumAttempts,
       q.MaxAttempts, q.NumCrashes, q.NumAbandons, q.RetryBaseMs, q.DedupKey, q.GroupKey, q.LoadId,
       case when coalesce(s.KeepHistory, 1) = 1 then q.Payload end,
       case when coalesce(s.KeepHistory, 1) = 1 then q.Headers end, q.LastError, @p_now, 1
  from @gone as g
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.RequestId
  left join rowlease.QueueSettings as s on s.QueueName = q.QueueName;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Scheduled, Pending, Failed)
select q.QueueName, q.Priority, q.LoadId, -sum(case when q.Status = 'Scheduled' then 1 else 0 end),
       -sum(case when q.Status = 'Pending' then 1 else 0 end),
       -sum(case when q.Status = 'Failed' then 1 else 0 end)
  from @gone as g
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = g.RequestId
 group by q.QueueName, q.Priority, q.LoadId;
delete q
  from @gone as g
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = g.RequestId
option (loop join, force order, maxdop 1);
exec rowlease_internal.unblock_groups @p_groups;
