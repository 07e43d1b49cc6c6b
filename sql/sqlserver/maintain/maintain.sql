-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit int -- how many rows a step may touch
-- returns:  what text, num_rows bigint, error text (null: none; else the step failed and did nothing)
--           -- one row per step that did something or failed
-- errors:   none
-- locks:    for each step: the lock of maintain, without waiting; rows of queue, skipping locked ones;
--           as recount_queues; the counts' lock, without waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is a
--           transaction of its own, is bounded, and skips locked rows, so any worker may call this
--           while it runs tasks. A step that would wait is left to the next call, and in a deadlock
--           another session wins. Counts are folded late, because routines that add them up wait
--           until the commit; batches end after that. A step that fails changes nothing, and the others
--           go on: one row that somebody has changed by hand must not stop the leases of all queues.
--           diagnose shows the failure until the step succeeds.
create or alter procedure rowlease.maintain @p_limit int = 1000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
set deadlock_priority low;
set lock_timeout 0;
declare @now datetime2(6) = rowlease.now(), @step int = 0, @queue nvarchar(100) = N'';
declare @granted bit = 1, @rows bigint, @what nvarchar(30), @error nvarchar(4000);
declare @done table (Place int identity primary key, What nvarchar(30) not null,
                     NumRows bigint not null, Error nvarchar(4000));
while @step <= 16 and @granted = 1
begin
  -- Steps 0 and 1 are for each queue, the others for all.
  if @step = 0
    set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
  if @queue is null and @step = 0
    set @step = 2;
  set @what = case @step
    when 0 then N'leases broken' when 1 then N'scheduled requests due' when 2 then N'receipts dropped'
    when 3 then N'workers removed' when 4 then N'progress dropped' when 5 then N'attempts dropped'
    when 6 then N'staged rows dropped' when 7 then N'waiters expired' when 8 then N'history dropped'
    when 9 then N'counts corrected' when 10 then N'counts folded'
    when 11 then N'starts forgotten' when 12 then N'operations dropped'
    when 13 then N'batches finished' when 14 then N'batches dropped'
    when 15 then N'times set back' when 16 then N'days begun' end;
  set @error = null;
  begin transaction;
  exec rowlease_internal.try_lock N'rowlease:maintain', @granted output;
  begin try
    if @granted = 1
    begin
      exec rowlease_internal.maintain_step @step, @queue, @now, @p_limit, @rows output;
      insert into @done (What, NumRows) values (@what, @rows);
      if exists (select 1 from rowlease.MaintainFailure as f)
        delete from rowlease.MaintainFailure
         where (What = @what and QueueName = coalesce(@queue, N''))
            or (QueueName <> N'' and QueueName not in (select s.QueueName from rowlease.QueueSettings as s));
    end;
    commit transaction;
  end try
  begin catch
    if xact_state() <> 0
      rollback transaction;
    if error_number() not in (1205, 1222, 51012)
    begin
      set @error = error_message();
      insert into @done (What, NumRows, Error) values (@what, 0, @error);
    end;
  end catch;
  if @error is not null
    exec rowlease_internal.note_failure @what, @queue, @error, @now;
  set @step = case when @step = 1 then 0 else @step + 1 end;
end;
select d.What as what, sum(d.NumRows) as num_rows, max(d.Error) as error
  from @done as d where d.NumRows > 0 or d.Error is not null group by d.What order by min(d.Place);
