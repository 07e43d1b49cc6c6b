-- break_expired: end leases that have expired; each request is retried or becomes a dead letter.
-- params:   p_queue_name nvarchar(400), p_now datetime2(6), p_limit int, p_broken int output
-- returns:  p_broken -- how many leases were broken
-- locks:    the requests' groups, without waiting; rows of queue, exclusive, skipping locked ones
-- why:      the lease of a started request that runs out is a crash; a request that was only
--           prefetched gets its attempt back. It is kept in Attempt nevertheless, because the worker
--           may have started it without having reported it. Too many crashes make a dead letter,
--           whatever max_attempts is. LockExpiresTime stays, to show what happened; the token stays,
--           too, so that the late worker gets lease_lost. The read keeps no locks: a routine that
--           finishes a request locks first the row and then the key of the index, which is the
--           opposite order.
create or alter procedure rowlease_internal.break_expired
  @p_queue_name nvarchar(400), @p_now datetime2(6), @p_limit int, @p_broken int output
as
set nocount on;
set xact_abort on;
declare @id bigint, @name nvarchar(255), @granted bit, @ids nvarchar(max), @groups nvarchar(max);
declare @expired table (RequestId bigint not null primary key, LockName nvarchar(255));
declare @taken table (RequestId bigint not null primary key);
declare @judged table (
  RequestId bigint not null primary key, Started bit not null, CancelRequested bit not null,
  NumCrashes int not null, NumAttempts int not null, Verdict nvarchar(30), Error nvarchar(max));
insert into @expired (RequestId, LockName)
select top (@p_limit) q.RequestId,
       case when q.GroupKey is not null then rowlease_internal.lock_name(N'g', q.QueueName, q.GroupKey) end
  from rowlease.Queue as q
    with (forceseek (queue_expiring (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Processing' and q.LockExpiresTime <= @p_now
 order by q.LockExpiresTime
option (maxdop 1);
set @p_broken = @@rowcount;
if @p_broken = 0
  return;
while exists (select 1 from @expired as e where e.LockName is not null)
begin
  select top (1) @id = e.RequestId, @name = e.LockName
    from @expired as e where e.LockName is not null order by e.LockName;
  exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 0
    delete from @expired where RequestId = @id;
  update @expired set LockName = null where RequestId = @id;
end;
update rowlease.Queue set LockToken = Queue.LockToken
output inserted.RequestId into @taken (RequestId)
  from @expired as e
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = e.RequestId
 where Queue.Status = 'Processing' and Queue.LockExpiresTime <= @p_now
option (loop join, force order, maxdop 1);
insert into @judged (RequestId, Started, CancelRequested, NumCrashes, NumAttempts, Verdict, Error)
select q.RequestId, x.Started, q.CancelRequested, q.NumCrashes + x.Started,
       q.NumAttempts - 1 + x.Started,
       case when q.NumCrashes + x.Started >= s.MaxCrashes then N'too many crashes: '
            when q.NumAttempts - 1 + x.Started >= q.MaxAttempts then N'no attempts left: ' end,
       concat(N'the lease ran out; its worker was killed, stopped or cut off',
              case when x.Started = 0 then N'; it may have run, though no start was reported' end, nchar(10),
              N'worker ', q.LockedBy, N', lease until ', rowlease_internal.time_text(q.LockExpiresTime),
              N', crash ', q.NumCrashes + x.Started)
  from @taken as t
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek) on q.RequestId = t.RequestId
 inner join rowlease.QueueSettings as s on s.QueueName = q.QueueName
 cross apply (select case when q.StartedTime is null then 0 else 1 end as Started) as x
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Processing, Pending, Failed)
select @p_queue_name, q.Priority, q.LoadId, -count(*),
       sum(case when j.Verdict is null then 1 else 0 end),
       sum(case when j.Verdict is null then 0 else 1 end)
  from @judged as j
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek) on q.RequestId = j.RequestId
 group by q.Priority, q.LoadId
option (loop join, force order, maxdop 1);
set @ids = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
              from @judged as j);
set @groups = (select g.queue_name as q, g.group_key as g
                 from rowlease_internal.groups_of(@ids) as g for json path);
insert into rowlease.Attempt (RequestId, LockToken, AttemptNumber, WorkerId, StartedTime, EndedTime,
                              Outcome, Error, ExpiresTime)
select q.RequestId, q.LockToken, q.NumAttempts, q.LockedBy, coalesce(q.StartedTime, q.LockedTime),
       @p_now, 'lease_lost', j.Error, dateadd(day, 1, @p_now)
  from @judged as j
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek) on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
exec rowlease_internal.trim_attempts @ids;
update q
   set Status = case when j.Verdict is null then 'Pending' else 'Failed' end,
       Returned = case when j.Verdict is null then 1 else 0 end,
       CompletionTime = case when j.Verdict is not null then @p_now end,
       LastError = case when j.Started = 1 or j.Verdict is not null then
         concat(j.Verdict, j.Error) else q.LastError end,
       NumCrashes = j.NumCrashes, NumAttempts = j.NumAttempts,
       NumAbandons = case when j.Started = 1 then 0 else q.NumAbandons end,
       LockedBy = null, StartedTime = null, CancelRequested = 0
  from @judged as j
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = j.RequestId
option (loop join, force order, maxdop 1);
set @p_broken = @@rowcount;
set @ids = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
              from @judged as j where j.CancelRequested = 1);
exec rowlease_internal.take_out @ids, null, @p_now;
exec rowlease_internal.unblock_groups @groups;
set @ids = (select N'[' + string_agg(cast(j.RequestId as nvarchar(max)), N',') + N']'
              from @judged as j where j.Verdict is not null);
exec rowlease_internal.report_dead_letters @ids, @p_now;
