-- sum_depth: count the waiting requests and the leased requests of a queue.
-- params:   p_queue_name nvarchar(400), p_waiting bigint output, p_processing bigint output
-- returns:  p_waiting (scheduled and pending), p_processing
-- errors:   51012 as take_lock
-- locks:    the counts' lock, shared, to the end of the transaction
-- why:      uncommitted counts of other transactions are skipped; otherwise every call would wait
--           for open transactions. The lock keeps fold_depth from running meanwhile: both the rows
--           it has deleted and the row it has inserted would be skipped.
create or alter procedure rowlease_internal.sum_depth
  @p_queue_name nvarchar(400), @p_waiting bigint output, @p_processing bigint output
as
set nocount on;
set xact_abort on;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
select @p_waiting = coalesce(sum(d.Scheduled + d.Pending), 0),
       @p_processing = coalesce(sum(d.Processing), 0)
  from rowlease.QueueDepth as d with (readpast, readcommittedlock)
 where d.QueueName = @p_queue_name;
