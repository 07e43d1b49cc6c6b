-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit int -- how many rows a step may touch
-- returns:  what text, num_rows bigint -- one row per step that did something
-- errors:   none
-- locks:    the lock of maintain, without waiting; rows of queue, skipping locked ones; as
--           recount_queues; the counts' lock, without waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is
--           bounded and skips locked rows, so any worker may call this while it runs tasks. Counts
--           are folded last, because routines that add them up wait until the commit.
create or alter procedure rowlease.maintain @p_limit int = 1000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queue nvarchar(100) = N'', @granted bit, @rows int;
declare @days int, @staged bigint, @folded bigint, @corrected bigint, @attempts bigint, @many int = @p_limit * 10;
declare @done table (Place int identity primary key, What nvarchar(30) not null,
                     NumRows bigint not null);
begin transaction;
exec rowlease_internal.try_lock N'rowlease:maintain', @granted output;
while @granted = 1 and @queue is not null
begin
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
  if @queue is null
    break;
  exec rowlease_internal.break_expired @queue, @now, @p_limit, @rows output;
  insert into @done (What, NumRows) values (N'leases broken', @rows);
  exec rowlease_internal.wake_due @queue, @now, @p_limit, @rows output;
  insert into @done (What, NumRows) values (N'scheduled requests due', @rows);
end;
if @granted = 1
begin
  delete top (@p_limit) from rowlease.EnqueueReceipt with (rowlock, readpast)
   where ReceivedTime < dateadd(day, -1, @now);
  insert into @done (What, NumRows) values (N'receipts dropped', @@rowcount);
  delete from rowlease.Worker with (rowlock, readpast) where HeartbeatTime < dateadd(hour, -1, @now);
  insert into @done (What, NumRows) values (N'workers removed', @@rowcount);
  delete top (@p_limit) from rowlease.Progress with (rowlock, readpast)
   where not exists (select 1 from rowlease.Queue as q
                      where q.RequestId = Progress.RequestId and q.LockToken = Progress.LockToken
                        and q.LockedBy is not null);
  insert into @done (What, NumRows) values (N'progress dropped', @@rowcount);
  exec rowlease_internal.sweep_attempts @now, @p_limit, @attempts output;
  insert into @done (What, NumRows) values (N'attempts dropped', @attempts);
  exec rowlease_internal.sweep_staging @now, @many, @staged output;
  insert into @done (What, NumRows) values (N'staged rows dropped', @staged);
  delete from rowlease.QueueWaiter with (rowlock, readpast)
   where ExpiresTime < dateadd(minute, -1, @now);
  insert into @done (What, NumRows) values (N'waiters expired', @@rowcount);
  set @days = (select max(s.RetentionDays) from rowlease.QueueSettings as s);
  delete top (@p_limit) from rowlease.QueueHistory with (rowlock, readpast)
   where CompletionTime < dateadd(day, -@days, @now);
  insert into @done (What, NumRows) values (N'history dropped', @@rowcount);
  exec rowlease_internal.recount_queues @p_limit, @corrected output;
  insert into @done (What, NumRows) values (N'counts corrected', @corrected);
  exec rowlease_internal.fold_depth @many, @folded output;
  insert into @done (What, NumRows) values (N'counts folded', @folded);
end;
commit transaction;
select d.What as what, d.NumRows as num_rows from @done as d where d.NumRows > 0 order by d.Place;
