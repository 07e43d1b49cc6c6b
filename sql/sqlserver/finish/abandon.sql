-- abandon: give leases up, so that the requests wait again; no attempt is counted.
-- params:   p_request_ids nvarchar(max), p_lock_tokens nvarchar(max)
-- locks:    the requests' groups, then rows of queue, exclusive; held to the caller's commit
create or alter procedure rowlease.abandon @p_request_ids nvarchar(max), @p_lock_tokens nvarchar(max)
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
declare @held xml, @done nvarchar(max), @groups nvarchar(max), @cancelled nvarchar(max);
declare @judged table (RequestId bigint not null primary key, Counts bit not null, IsDead bit not null,
                       CancelRequested bit not null);
declare @answer table (Place int not null primary key, RequestId bigint, Outcome varchar(20) not null);
exec rowlease_internal.check_arrays @p_request_ids, @p_lock_tokens;
begin transaction;
exec rowlease_internal.take_held @p_request_ids, @p_lock_tokens, @held output;
set @done = cast(@held as nvarchar(max));
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@p_request_ids) as g for json path);
insert into @judged (RequestId, Counts, IsDead, CancelRequested)
select q.RequestId, case when q.NumAbandons >= 9 then 1 else 0 end,
       case when q.NumAbandons >= 9 and q.NumAttempts >= q.MaxAttempts and q.CancelRequested = 0
            then 1 else 0 end,
       q.CancelRequested
  from openjson(@done) as h
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId)))
    on q.RequestId = cast(h.value as bigint);
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, Pending, Failed)
select q.QueueName, q.Priority, q.LoadId, -count(*), sum(1 - j.IsDead), sum(0 + j.IsDead)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId
 group by q.QueueName, q.Priority, q.LoadId;
insert into rowlease.Attempt (RequestId, LockToken, AttemptNumber, WorkerId, StartedTime, EndedTime,
                              Outcome, ExpiresTime)
select q.RequestId, q.LockToken, q.NumAttempts, q.LockedBy, coalesce(q.StartedTime, q.LockedTime),
       @now, 'abandoned', dateadd(day, 1, @now)
  from @judged as j
  join rowlease.Queue as q with (forceseek (queue_pkey (RequestId))) on q.RequestId = j.RequestId
 where q.StartedTime is not null or j.Counts = 1;
exec rowlease_internal.trim_attempts @p_request_ids;
update q
   set Status = case when j.IsDead = 1 then 'Failed' else 'Pending' end, Returned = 1 - j.IsDead,
       CompletionTime = case when j.IsDead = 1 then @now end,
       LastError = case when j.IsDead = 1 then N'no attempts left: abandoned ten times in a row'
                        else q.LastError end,
       NumAttempts = q.NumAttempts - (1 - j.Counts),
       NumAbandons = case when j.Counts = 1 then 0 else q.NumAbandons + 1 end,
       LockedBy = null, LockExpiresTime = null, StartedTime = null, CancelRequested = 0
  from @judged as j
  join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
    on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
set @cancelled = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
                    from @judged as j where j.CancelRequested = 1);
exec rowlease_internal.take_out @cancelled, null, @now;
exec rowlease_internal.unblock_groups @groups;
exec rowlease_internal.report_dead_letters @done, @now;
insert into @answer (Place, RequestId, Outcome)
select o.place, o.request_id, o.outcome
  from rowlease_internal.lease_outcomes(@p_request_ids, @p_lock_tokens, @done) as o;
commit transaction;
select a.RequestId as request_id, a.Outcome as outcome from @answer as a order by a.Place;
