-- sum_depth: count the requests of a queue that wait, and those that are leased.
-- params:   p_queue_name nvarchar(400), p_waiting bigint output, p_processing bigint output
-- returns:  p_waiting (scheduled and pending), p_processing
-- errors:   51012 counts are being folded for longer than the session waits
-- locks:    the counts' lock, shared, to the end of the transaction
-- why:      what others have not committed is passed over, or everybody would wait for an open
--           transaction; the lock keeps out whoever folds counts, whose old rows would be passed over
--           as well as the new one.
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
