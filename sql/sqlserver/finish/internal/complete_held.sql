-- complete_held: finish leased requests; shared by complete and exchange.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max), p_results nvarchar(max),
--           p_held xml output
-- returns:  p_held -- the ids that this call has finished, as take_held
-- errors:   RL001 arrays of different lengths; 51011 a result that is not JSON
-- locks:    as take_held
-- why:      see complete.
create or alter procedure rowlease_internal.complete_held
  @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max), @p_results nvarchar(max),
  @p_held xml output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now(), @groups nvarchar(max);
declare @given table (Place int not null primary key, RequestId bigint, LockToken bigint,
                      Result nvarchar(max));
declare @done table (RequestId bigint not null primary key, Result nvarchar(max));
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens, @p_results;
insert into @given (Place, RequestId, LockToken, Result)
select g.place, g.request_id, g.lock_token, r.value
  from rowlease_internal.held_pairs(@p_request_ids, @p_lock_tokens) as g
  left join openjson(@p_results) as r on cast(r.[key] as int) = g.place;
if exists (select 1 from @given as g where rowlease_internal.is_json(g.Result) = 0)
  throw 51011, N'a payload, result or header is not JSON', 1;
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @p_held output;
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
insert into @done (RequestId, Result)
select q.RequestId, max(g.Result)
  from openjson(cast(@p_held as nvarchar(max))) as h
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
    on q.RequestId = cast(h.value as bigint)
  join @given as g on g.RequestId = q.RequestId and g.LockToken = q.LockToken
 group by q.RequestId;
insert into rowlease.QueueHistory (
  RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime, LockedBy, LockedTime,
  LockExpiresTime, StartedTime, LockToken, NumAttempts, MaxAttempts, NumCrashes, NumAbandons,
  RetryBaseMs, DedupKey, GroupKey, LoadId, Payload, Headers, LastError, CompletionTime,
  CancelRequested, Result)
select q.RequestId, q.QueueName, q.Kind, 'Complete', q.Priority, q.RequestedTime, q.DueTime,
       q.LockedBy, q.LockedTime, q.LockExpiresTime, q.StartedTime, q.LockToken, q.NumAttempts,
       q.MaxAttempts, q.NumCrashes, q.NumAbandons, q.RetryBaseMs, q.DedupKey, q.GroupKey, q.LoadId,
       case when coalesce(s.KeepHistory, 1) = 1 then q.Payload end,
       case when coalesce(s.KeepHistory, 1) = 1 then q.Headers end, q.LastError, @now,
       q.CancelRequested, case when coalesce(s.KeepHistory, 1) = 1 then d.Result end
  from @done as d
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = d.RequestId
  left join rowlease.QueueSettings as s on s.QueueName = q.QueueName;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, NumFinished)
select q.QueueName, q.Priority, q.LoadId, -count(*), count(*)
  from @done as d
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = d.RequestId
 group by q.QueueName, q.Priority, q.LoadId;
delete q
  from @done as d
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = d.RequestId
option (loop join, force order, maxdop 1);
exec rowlease_internal.unblock_groups @groups;
