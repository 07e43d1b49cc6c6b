-- take_batch: create a batch, or refuse one that is finished.
-- params:   p_batch_id nvarchar(400), p_now datetime2(6)
-- returns:  nothing
-- errors:   RL017 the batch is finished
-- locks:    the batch's lock until the caller's commit, shared if the batch exists
-- why:      the lock keeps finish_idle_batches away until the requests are committed. It is exclusive for a
--           new batch, so that two callers do not add the same row.
create or alter procedure rowlease_internal.take_batch @p_batch_id nvarchar(400), @p_now datetime2(6)
as
set nocount on;
set xact_abort on;
declare @lock nvarchar(255) = rowlease_internal.lock_name(N'batch', N'', @p_batch_id);
declare @mode varchar(10) = 'Exclusive', @says nvarchar(2048);
if exists (select 1 from rowlease.Batch as b with (forceseek (batch_pkey (BatchId)))
            where b.BatchId = @p_batch_id)
  set @mode = 'Shared';
exec rowlease_internal.take_lock @lock, @mode;
insert into rowlease.Batch (BatchId, CreatedTime)
select @p_batch_id, @p_now
 where not exists (select 1 from rowlease.Batch as b with (forceseek (batch_pkey (BatchId)))
                    where b.BatchId = @p_batch_id);
if exists (select 1 from rowlease.Batch as b with (forceseek (batch_pkey (BatchId)))
            where b.BatchId = @p_batch_id and b.FinishedTime is not null)
begin
  set @says = concat(N'the batch "', @p_batch_id,
                     N'" is finished and takes no more requests; choose another id');
  throw 51017, @says, 1;
end;
