-- set_back_times: set back times that are in the future because the clock was set back.
-- params:   p_now datetime2(6), p_changed bigint output
-- returns:  p_changed -- how many rows were changed
create or alter procedure rowlease_internal.set_back_times @p_now datetime2(6), @p_changed bigint output
as
set nocount on;
set xact_abort on;
declare @latest datetime2(6) = dateadd(second, 10, @p_now), @queue nvarchar(100) = N'';
update rowlease.Worker with (rowlock, readpast) set HeartbeatTime = @p_now
 where HeartbeatTime > @latest;
set @p_changed = @@rowcount;
update rowlease.QueueWaiter with (rowlock, readpast) set ExpiresTime = dateadd(second, 2, @p_now)
 where ExpiresTime > @latest;
set @p_changed = @p_changed + @@rowcount;
while @queue is not null
begin
  set @queue = (
    select min(r.QueueName)
      from rowlease.RateStart as r with (index (rate_start_started), forceseek, readpast, readcommittedlock)
     where r.StartedTime > @latest and r.QueueName > @queue);
  if @queue is not null
    exec rowlease_internal.end_delays @queue, N'-';
  delete r
    from rowlease.RateStart as r with (index (rate_start_started), forceseek, rowlock, readpast)
   where r.StartedTime > @latest and r.QueueName = @queue
  option (maxdop 1);
  set @p_changed = @p_changed + @@rowcount;
end;
