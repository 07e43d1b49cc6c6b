-- sum_depth: count the requests of a queue that wait, and those that are leased.
-- params:   p_queue_name nvarchar(400), p_waiting bigint output, p_processing bigint output
-- returns:  p_waiting (scheduled and pending), p_processing
-- errors:   51012 as take_lock
-- locks:    the counts' lock, shared, to the end of the transaction
-- why:      uncommitted counts of others are skipped, or every call would wait for an open
--           transaction. The lock keeps fold_depth out, whose deleted rows would be skipped as well
--           as its new one.
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
