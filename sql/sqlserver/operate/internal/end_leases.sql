-- end_leases: end the leases of running requests, for an operator.
-- params:   p_request_ids nvarchar(max), p_groups nvarchar(max), p_now datetime2(6)
-- returns:  nothing
-- locks:    as trim_attempts and unblock_groups; the caller has locked the rows and their groups
create or alter procedure rowlease_internal.end_leases
  @p_request_ids nvarchar(max), @p_groups nvarchar(max), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @ids nvarchar(max);
declare @old table (
  RequestId bigint not null primary key, QueueName nvarchar(100) not null, Priority smallint not null,
  LoadId nvarchar(100) collate Latin1_General_100_BIN2, LockToken bigint not null, WorkerId nvarchar(200) not null, StartedTime datetime2(6),
  CancelRequested bit not null, NumAttempts int not null, Dead bit not null, Error nvarchar(max) not null);
insert into @old (RequestId, QueueName, Priority, LoadId, LockToken, WorkerId, StartedTime,
                  CancelRequested, NumAttempts, Dead, Error)
select q.RequestId, q.QueueName, q.Priority, q.LoadId, q.LockToken, q.LockedBy, q.StartedTime,
       q.CancelRequested,
       x.Attempts, case when x.Attempts >= q.MaxAttempts then 1 else 0 end,
       concat(N'an operator ended the lease', nchar(10), N'worker ', q.LockedBy)
  from openjson(@p_request_ids) as i
  join rowlease.Queue as q on q.RequestId = cast(i.value as bigint)
 cross apply (select q.NumAttempts - case when q.StartedTime is null then 1 else 0 end as Attempts) as x
 where q.LockedBy is not null;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, Pending, Failed)
select o.QueueName, o.Priority, o.LoadId, -count(*), sum(case when o.Dead = 0 then 1 else 0 end),
       sum(case when o.Dead = 1 then 1 else 0 end)
  from @old as o group by o.QueueName, o.Priority, o.LoadId;
insert into rowlease.Attempt (RequestId, LockToken, AttemptNumber, WorkerId, StartedTime, EndedTime,
                              Outcome, Error, ExpiresTime)
select o.RequestId, o.LockToken, o.NumAttempts, o.WorkerId, o.StartedTime, @p_now, 'lease_lost',
       o.Error, dateadd(day, 1, @p_now)
  from @old as o where o.StartedTime is not null;
set @ids = (select N'[' + string_agg(cast(o.RequestId as nvarchar(max)), N',') + N']' from @old as o);
exec rowlease_internal.trim_attempts @ids;
update q
   set Status = case when o.Dead = 1 then 'Failed' else 'Pending' end,
       Returned = case when o.Dead = 1 then 0 else 1 end,
       CompletionTime = case when o.Dead = 1 then @p_now end,
       LastError = case when o.Dead = 1 then concat(N'no attempts left: ', o.Error)
                        when o.StartedTime is not null then o.Error else q.LastError end,
       NumAttempts = o.NumAttempts, LockToken = q.LockToken + 1,
       NumAbandons = case when o.StartedTime is not null then 0 else q.NumAbandons end,
       LockedBy = null, StartedTime = null, CancelRequested = 0
  from @old as o
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = o.RequestId
option (loop join, force order, maxdop 1);
set @ids = (select N'[' + string_agg(cast(o.RequestId as nvarchar(max)), N',') + N']'
              from @old as o where o.CancelRequested = 1);
exec rowlease_internal.take_out @ids, null, @p_now;
exec rowlease_internal.unblock_groups @p_groups;
exec rowlease_internal.report_dead_letters @p_request_ids, @p_now;
