-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit int -- how many rows a step may touch
-- returns:  what text, num_rows bigint -- one row per step that did something
-- errors:   none
-- locks:    for each step: the lock of maintain, without waiting; rows of queue, skipping locked ones;
--           as recount_queues; the counts' lock, without waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is a
--           transaction of its own, is bounded, and skips locked rows, so any worker may call this
--           while it runs tasks. A step that would wait is left to the next call, and in a deadlock
--           another session wins. Counts are folded late, because routines that add them up wait
--           until the commit; batches end after that.
create or alter procedure rowlease.maintain @p_limit int = 1000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
set deadlock_priority low;
set lock_timeout 0;
declare @now datetime2(6) = rowlease.now(), @step int = 0, @queue nvarchar(100) = N'';
declare @granted bit = 1, @rows bigint, @what nvarchar(30);
declare @done table (Place int identity primary key, What nvarchar(30) not null,
                     NumRows bigint not null);
while @step <= 15 and @granted = 1
begin
  -- Steps 0 and 1 are for each queue, the others for all.
  if @step = 0
    set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
  if @queue is null and @step = 0
    set @step = 2;
  begin transaction;
  exec rowlease_internal.try_lock N'rowlease:maintain', @granted output;
  begin try
    if @granted = 1
    begin
      exec rowlease_internal.maintain_step @step, @queue, @now, @p_limit, @what output, @rows output;
      insert into @done (What, NumRows) values (@what, @rows);
    end;
    commit transaction;
  end try
  begin catch
    if xact_state() <> 0
      rollback transaction;
    if error_number() not in (1205, 1222, 51012)
      throw;
  end catch;
  set @step = case when @step = 1 then 0 else @step + 1 end;
end;
select d.What as what, sum(d.NumRows) as num_rows
  from @done as d where d.NumRows > 0 group by d.What order by min(d.Place);
