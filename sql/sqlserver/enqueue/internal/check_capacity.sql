-- check_capacity: refuse requests for which a queue has no room.
-- params:   p_queue_name nvarchar(400), p_num_requests bigint, p_priority int, p_now datetime2(6),
--           p_admitted bit output, p_waiter_id bigint, p_wait_ms bigint (null: full is an error)
-- returns:  p_admitted -- 0 if the queue is full
-- locks:    the queue's admission lock if it has a capacity; held to the caller's commit
-- why:      producers for a queue with a capacity count one after the other; otherwise two of them
--           could both find the last free place. Other queues are read without a lock. Places for
--           producers ahead in line (of higher priority, or earlier at the same priority) count as
--           taken.
create or alter procedure rowlease_internal.check_capacity
  @p_queue_name nvarchar(400), @p_num_requests bigint, @p_priority int, @p_now datetime2(6),
  @p_admitted bit output, @p_waiter_id bigint = null, @p_wait_ms bigint = null
as
set nocount on;
set xact_abort on;
declare @capacity bigint, @priority int, @waiting bigint, @processing bigint, @ahead bigint;
declare @lock nvarchar(255) = concat(N'rowlease:admit:', @p_queue_name);
set @p_admitted = 1;
exec rowlease_internal.check_queue @p_queue_name;
if (select s.Capacity from rowlease.QueueSettings as s where s.QueueName = @p_queue_name) is null
  return;
exec rowlease_internal.take_lock @lock;
select @capacity = s.Capacity,
       @priority = case when @p_priority < s.MaxPriority then @p_priority else s.MaxPriority end
  from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
exec rowlease_internal.sum_depth @p_queue_name, @waiting output, @processing output;
select @ahead = coalesce(sum(w.NumRequests), 0)
  from rowlease.QueueWaiter as w
 where w.QueueName = @p_queue_name and w.ExpiresTime > @p_now
   and (w.Priority > @priority
        or w.Priority = @priority and w.WaiterId < coalesce(@p_waiter_id, w.WaiterId + 1));
if @capacity is null or @waiting + @ahead + @p_num_requests <= @capacity
  return;
set @p_admitted = 0;
if @p_wait_ms = 0 or @p_wait_ms > 0 and @p_num_requests <= @capacity
  return;
declare @says nvarchar(2048) = concat(
  N'queue "', @p_queue_name, N'" is full: ', @waiting, N' of ', @capacity, N' places are taken',
  case when @ahead > 0 then concat(N' and ', @ahead, N' reserved') end, N'; ', @p_num_requests,
  N' more cannot fit; ',
  case when @p_num_requests > @capacity then N'split the call' else N'wait for workers' end,
  N', or raise the capacity: rowlease queue set ', @p_queue_name, N' capacity=',
  @waiting + @ahead + @p_num_requests);
throw 51005, @says, 1;
