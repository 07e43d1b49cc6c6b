-- finish_batches: finish batches that have ended, without waiting for maintain.
-- params:   p_batch_id nvarchar(400) (null: every batch)
-- locks:    the counts' lock: for one batch without waiting, for every batch after at most 2 s; rows of
--           queue_depth, skipping locked ones; rows of batch; as finish_idle_batches
-- why:      when the last worker has ended, nothing calls maintain. So a worker calls this before it
--           ends, and a program that waits for a batch calls it when nothing of the batch is left. What
--           another session has locked is left to that session, or to the next call. A read-only
--           database (error 3906) finishes nothing.
create or alter procedure rowlease.finish_batches @p_batch_id nvarchar(400) = null
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
set deadlock_priority low;
set lock_timeout 0;
declare @now datetime2(6) = rowlease.now(), @granted bit, @folded bigint, @finished bigint = 0;
declare @wait int = case when @p_batch_id is null then 2000 else 0 end;
begin try
  begin transaction;
  exec rowlease_internal.try_lock N'rowlease:depth', @granted output, @wait;
  if @granted = 1
  begin
    exec rowlease_internal.fold_depth 2147483647, @folded output;
    exec rowlease_internal.finish_idle_batches @p_batch_id, @now, 10000, @finished output;
  end;
  commit transaction;
end try
begin catch
  if xact_state() <> 0
    rollback transaction;
  if error_number() not in (1205, 1222, 3906, 51012)
    throw;
  set @finished = 0;
end catch;
select @finished as finish_batches;
