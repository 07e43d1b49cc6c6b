-- maintain_step: do one step of the housekeeping.
-- params:   p_step int (0 to 16), p_queue_name nvarchar(400) (for steps 0 and 1), p_now datetime2(6),
--           p_limit int, p_rows bigint output
-- returns:  p_rows -- how many rows it changed
-- errors:   51012 as recount_queues
-- locks:    the caller holds the lock of maintain; rows that it deletes, skipping locked ones; as the
--           routine of the step
-- why:      maintain makes each step a transaction of its own, so that rows that one step has locked
--           are not hidden from claims while a later step works.
create or alter procedure rowlease_internal.maintain_step
  @p_step int, @p_queue_name nvarchar(400), @p_now datetime2(6), @p_limit int,
  @p_rows bigint output
as
set nocount on;
set xact_abort on;
declare @rows int, @many int = @p_limit * 10;
declare @days int = (select max(s.RetentionDays) from rowlease.QueueSettings as s);
if @p_step = 2
  delete top (@p_limit) r
    from rowlease.EnqueueReceipt as r
      with (index (enqueue_receipt_received), forceseek, rowlock, readpast)
   where r.ReceivedTime < dateadd(day, -1, @p_now)
  option (maxdop 1);
else if @p_step = 3
  delete from rowlease.Worker with (rowlock, readpast)
   where HeartbeatTime < dateadd(hour, -1, @p_now);
else if @p_step = 7
  delete from rowlease.QueueWaiter with (rowlock, readpast)
   where ExpiresTime < dateadd(minute, -1, @p_now);
else if @p_step = 8
  delete top (@p_limit) h
    from rowlease.QueueHistory as h
      with (index (queue_history_completed), forceseek, rowlock, readpast)
   where h.CompletionTime < dateadd(day, -@days, @p_now)
  option (maxdop 1);
else if @p_step = 11
  delete top (@many) r
    from rowlease.RateStart as r with (index (rate_start_expiring), forceseek, rowlock, readpast)
   where r.ExpiresTime <= dateadd(second, -10, @p_now)
  option (maxdop 1);
else if @p_step = 14
  delete top (@p_limit) b
    from rowlease.Batch as b with (index (batch_finished), forceseek, rowlock, readpast)
   where b.FinishedTime < dateadd(day, -@days, @p_now) and b.NumLive = 0 and b.NumFailed = 0
  option (maxdop 1);
set @p_rows = @@rowcount;
if @p_step = 0
begin
  exec rowlease_internal.break_expired @p_queue_name, @p_now, @p_limit, @rows output;
  set @p_rows = @rows;
end;
if @p_step = 1
begin
  exec rowlease_internal.wake_due @p_queue_name, @p_now, @p_limit, @rows output;
  set @p_rows = @rows;
end;
if @p_step = 4
  exec rowlease_internal.sweep_progress @p_limit, @p_rows output;
if @p_step = 5
  exec rowlease_internal.sweep_attempts @p_now, @p_limit, @p_rows output;
if @p_step = 6
begin
  exec rowlease_internal.sweep_loads @p_now, @many;
  exec rowlease_internal.sweep_lane @many, @p_rows output;
end;
if @p_step = 15
  exec rowlease_internal.set_back_times @p_now, @p_rows output;
if @p_step = 16
  exec rowlease_internal.begin_day @p_now, @p_rows output;
if @p_step = 9
  exec rowlease_internal.recount_queues @p_limit, @p_rows output;
if @p_step = 13
  exec rowlease_internal.finish_idle_batches null, @p_now, @p_limit, @p_rows output;
if @p_step = 12
  exec rowlease_internal.sweep_operations @p_now, @p_limit, @p_rows output;
if @p_step = 10
  exec rowlease_internal.fold_depth @many, @p_rows output;
