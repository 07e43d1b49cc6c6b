-- wait_for_batch: note that new requests wait for a batch, or give them the counts of one that is finished.
-- params:   p_after nvarchar(400), p_request_ids nvarchar(max), p_waits bit (0: the batch is finished)
-- returns:  nothing
-- locks:    rows of queue, which are the caller's own, skipping locked ones
-- why:      finish_idle_batches does not see requests that come after the end of their batch.
create or alter procedure rowlease_internal.wait_for_batch
  @p_after nvarchar(400), @p_request_ids nvarchar(max), @p_waits bit
as
set nocount on;
set xact_abort on;
if @p_waits = 1
  insert into rowlease.BatchWait (RequestId, BatchId)
  select cast(i.value as bigint), @p_after from openjson(@p_request_ids) as i;
else
  update q
     set Headers = rowlease_internal.batch_headers(
           q.Headers, b.BatchId, b.NumComplete, b.NumFailed, b.NumCancelled)
    from openjson(@p_request_ids) as i
   inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock, readpast)
           on q.RequestId = cast(i.value as bigint)
   cross join rowlease.Batches as b
   where b.BatchId = @p_after
  option (loop join, force order, maxdop 1);
