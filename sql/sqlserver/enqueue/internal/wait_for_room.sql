-- wait_for_room: take or keep a producer's place in the line for a full queue.
-- params:   p_queue_name nvarchar(400), p_priority int, p_num_requests int, p_now datetime2(6),
--           p_wait_ms bigint, p_waiter_id bigint output
-- returns:  p_waiter_id -- the waiter's id
create or alter procedure rowlease_internal.wait_for_room
  @p_queue_name nvarchar(400), @p_priority int, @p_num_requests int, @p_now datetime2(6),
  @p_wait_ms bigint, @p_waiter_id bigint output
as
set nocount on;
set xact_abort on;
declare @expires datetime2(6) = rowlease_internal.add_ms(
  @p_now, case when @p_wait_ms < 2000 then @p_wait_ms else 2000 end);
update rowlease.QueueWaiter set ExpiresTime = @expires where WaiterId = @p_waiter_id;
if @@rowcount = 1
  return;
insert into rowlease.QueueWaiter (QueueName, Priority, NumRequests, ArrivedTime, ExpiresTime)
select s.QueueName, case when @p_priority < s.MaxPriority then @p_priority else s.MaxPriority end,
       @p_num_requests, @p_now, @expires
  from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
set @p_waiter_id = scope_identity();
