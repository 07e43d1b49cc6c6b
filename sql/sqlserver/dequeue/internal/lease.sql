-- lease: lease waiting requests of several queues; shared by dequeue and exchange.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int, p_slots int,
--           p_lease_ms bigint, p_leased xml output, p_more bit output, p_wait_ms bigint output
-- returns:  p_leased -- the ids in claim order, as a JSON array; null: none; p_more, p_wait_ms -- as
--           dequeue
-- errors:   RL001 bad argument, RL002 unknown queue; 51012 as try_lock
-- locks:    keys of the claim's index, for update, in claim order, skipping locked ones; the requests'
--           own locks, without waiting; rows of queue, exclusive, skipping locked ones
-- why:      the plain way to claim. It is for queues with strict order, without groups, in-flight
--           limit, rate, consumer priorities or a load in the lane, and with no expired lease, due
--           Scheduled request or priority above the maximum to handle first. One statement (look)
--           reads a queue's settings and probes its indexes, one finds the first requests of the
--           queue, one leases these requests. If a queue is not plain, or another session has the lock
--           of a request, lease_carefully claims instead. The update keeps two claims apart, because
--           it checks the status again. The hints and the locks on ids only keep claims from waiting
--           for each other. A session whose context has rowlease_claim_locks = off does not take
--           these locks, so their cost can be measured. A token grows by a random number up to 2^32: after a failover or a restore,
--           a claim that was lost and a new claim of the same id have different tokens. A lease counts
--           from the write of its row, as in renew: a call may be delayed. Requests past
--           the first p_slots (default: p_limit) are prefetched: they have not started. The ids are
--           returned as xml because not every T-SQL engine has nvarchar(max) output; SQL Server keeps
--           a plan for each session of a procedure that writes into its caller's #table.
create or alter procedure rowlease_internal.lease
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int,
  @p_lease_ms bigint, @p_leased xml output, @p_more bit output, @p_wait_ms bigint output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6) = rowlease.now(), @slots int = coalesce(@p_slots, @p_limit), @plain bit = 1;
declare @turn int = 0, @queue nvarchar(400), @paused bit, @top smallint, @lease_ms int;
declare @written datetime2(6), @found int = 0, @place int = 0, @name nvarchar(255), @granted int, @locks bit =
  case when cast(session_context(N'rowlease_claim_locks') as nvarchar(10)) = N'off' then 0 else 1 end;
declare @first table (
  Place int identity primary key, RequestId bigint not null unique, LeaseMs int not null);
declare @claimed table (
  RequestId bigint not null primary key, Priority int not null,
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null);
set @p_more = 0;
set @p_wait_ms = null;
if coalesce(@p_worker_id, N'') = N'' or @p_queue_names is null or @p_limit is null
   or @p_limit not between 1 and 10000 or @p_lease_ms not between 100 and 86400000
  throw 51001,
    N'dequeue needs a worker id, queues, a limit of 1 to 10000 and a lease of 100 to 86400000 ms', 1;
while @plain = 1 and @found < @p_limit
begin
  select @queue = l.queue_name, @paused = l.paused, @top = l.max_priority, @plain = l.is_plain,
         @lease_ms = coalesce(@p_lease_ms, l.lease_ms)
    from rowlease_internal.look(@p_queue_names, @turn, @now) as l
  option (loop join, maxdop 1);
  if @@rowcount = 0
    break;
  set @turn = @turn + 1;
  if @plain = 0 or @paused = 1
    continue;
  insert into @first (RequestId, LeaseMs)
  select top (@p_limit - @found) q.RequestId, @lease_ms
    from rowlease.Queue as q with (forceseek (queue_pending (QueueName)), updlock, readpast, rowlock)
   where q.QueueName = @queue and q.Status = 'Pending' and q.GroupBlocked = 0
     and q.GroupKey is null and q.Priority <= @top
     and q.RequestId not in (select f.RequestId from @first as f)
   order by q.Priority desc, q.DueTime, q.RequestId
  option (loop join, maxdop 1);
  set @found = @found + @@rowcount;
end;
while @plain = 1 and @place < @found and @locks = 1
begin
  set @place = @place + 1;
  set @name = (select concat(N'rowlease:r:', f.RequestId) from @first as f where f.Place = @place);
  exec @granted = sys.sp_getapplock @Resource = @name, @LockMode = 'Exclusive',
                                    @LockOwner = 'Transaction', @LockTimeout = 0,
                                    @DbPrincipal = N'rowlease_lock';
  if @granted = -1
    set @plain = 0;
  if @granted < -1
    throw 51012, N'the lock of a request cannot be taken; nothing was done, call again', 1;
end;
if @plain = 0
begin
  exec rowlease_internal.lease_carefully @p_worker_id, @p_queue_names, @p_limit, @slots, @p_lease_ms,
                                         @p_leased output, @p_more output, @p_wait_ms output;
  return;
end;
if @found > 0
begin
  set @written = rowlease.now();
  update rowlease.Queue
     set Status = 'Processing', LockedBy = @p_worker_id, LockedTime = @written,
         LockExpiresTime = dateadd(millisecond, (
           select f.LeaseMs from @first as f where f.RequestId = Queue.RequestId), @written),
         StartedTime = case when Queue.RequestId in (
           select f.RequestId from @first as f where f.Place <= @slots) then @written end,
         LockToken = LockToken + cast(2147483649 as bigint) + checksum(newid()),
         NumAttempts = NumAttempts + 1, Returned = 0
  output inserted.RequestId, inserted.Priority, inserted.QueueName
    into @claimed (RequestId, Priority, QueueName)
    from @first as g
   inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
           on Queue.RequestId = g.RequestId
   where Queue.Status = 'Pending' and Queue.GroupBlocked = 0
  option (loop join, force order, maxdop 1);
  set @p_more = case when @@rowcount < @found or @found = @p_limit then 1 else 0 end;
  insert into rowlease.QueueDepth (QueueName, Priority, Pending, Processing)
  select c.QueueName, c.Priority, -count(*), count(*) from @claimed as c group by c.QueueName, c.Priority;
end;
set @p_leased = (
  select N'[' + string_agg(cast(f.RequestId as nvarchar(max)), N',') within group (order by f.Place)
         + N']'
    from @first as f where f.RequestId in (select c.RequestId from @claimed as c));
if @p_more = 0
  exec rowlease_internal.ms_until_event @p_queue_names, @now, @p_wait_ms output;
