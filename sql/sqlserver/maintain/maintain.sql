-- maintain: do the housekeeping; call this every second or so.
-- params:   p_limit int -- how many rows a step may touch
-- locks:    for each step: the lock of maintain, without waiting; rows of queue, skipping locked ones;
--           as recount_queues; the counts' lock, without waiting
-- why:      one caller at a time does the work; other callers return immediately. Every step is a
--           transaction of its own, is bounded, and skips locked rows, so any worker may call this
--           while it runs tasks. A step that would wait is left to the next call, and in a deadlock
--           another session wins. Counts are folded late, because routines that add them up wait
--           until the commit; batches end after that. A step that fails changes nothing, and the others
--           go on: one row that somebody has changed by hand must not stop the leases of all queues.
--           diagnose shows the failure until the step succeeds. Steps for which there is nothing to do
--           begin no transaction.
create or alter procedure rowlease.maintain @p_limit int = 1000
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
set deadlock_priority low;
set lock_timeout 0;
declare @now datetime2(6) = rowlease.now(), @step int = -1, @queue nvarchar(100) = N'';
declare @granted bit = 1, @rows bigint, @what nvarchar(30), @error nvarchar(4000);
declare @done table (Place int identity primary key, What nvarchar(30) not null,
                     NumRows bigint not null, Error nvarchar(4000));
while @granted = 1
begin
  select @step = n.step, @queue = n.queue_name, @what = n.what
    from rowlease_internal.next_step(@step, @queue, @now) as n;
  if @@rowcount = 0
    break;
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
         where (What = @what and QueueName = @queue)
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
end;
select d.What as what, sum(d.NumRows) as num_rows, d.Error as error
  from @done as d where d.NumRows > 0 or d.Error is not null
 group by d.What, d.Error order by min(d.Place);
