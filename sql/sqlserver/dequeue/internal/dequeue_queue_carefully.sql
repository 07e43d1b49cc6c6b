-- dequeue_queue_carefully: lease waiting requests of one queue.
-- params:   p_queue_name nvarchar(400), p_worker_id nvarchar(400), p_now datetime2(6),
--           p_lease_ms bigint, p_limit int, p_slots int, p_leased xml output, p_more bit output,
--           p_held_back bit output, p_next datetime2(6) output
-- returns:  p_leased -- the ids as a JSON array, in claim order; null: none; p_more -- ask again at once;
--           p_held_back -- other workers go first, or the in-flight limit is reached; p_next -- when
--           the queue's rate permits the next start; null: now
-- why:      lease_carefully does this for each queue. A worker of lower priority gets nothing while
--           one of higher priority is alive (a heartbeat within 2 s) and has free slots (RabbitMQ,
--           "Consumer Priorities"); only queues with a priority other than 0 check that.
create or alter procedure rowlease_internal.dequeue_queue_carefully
  @p_queue_name nvarchar(400), @p_worker_id nvarchar(400), @p_now datetime2(6), @p_lease_ms bigint,
  @p_limit int, @p_slots int, @p_leased xml output, @p_more bit output, @p_held_back bit output,
  @p_next datetime2(6) output
as
set nocount on;
set xact_abort on;
declare @step int = 2 * @p_limit + 10, @broken int, @moved int, @room bigint = @p_limit;
declare @paused bit, @policy varchar(10), @max_priority int, @max_in_flight int, @consumers bit;
declare @waiting bigint, @processing bigint, @lease_ms bigint, @mine int;
declare @leased int, @ids nvarchar(max), @rate varchar(30), @group_rate varchar(30), @in_rate bigint;
set @p_leased = null;
set @p_more = 0;
set @p_held_back = 0;
set @p_next = null;
exec rowlease_internal.check_queue @p_queue_name;
select @paused = s.Paused, @policy = s.Policy, @max_priority = s.MaxPriority,
       @max_in_flight = s.MaxInFlight, @consumers = s.ConsumerPriorities,
       @rate = s.Rate, @group_rate = s.GroupRate,
       @lease_ms = coalesce(@p_lease_ms, 1000 * cast(s.LeaseSeconds as bigint))
  from rowlease.QueueSettings as s where s.QueueName = @p_queue_name;
if @paused = 1
  return;
exec rowlease_internal.lower_priorities @p_queue_name, @max_priority, 1000;
exec rowlease_internal.break_expired @p_queue_name, @p_now, @step, @broken output;
exec rowlease_internal.wake_due @p_queue_name, @p_now, @step, @moved output;
if @max_in_flight is not null
begin
  exec rowlease_internal.sum_depth @p_queue_name, @waiting output, @processing output;
  set @room = case when @max_in_flight - @processing < @p_limit then @max_in_flight - @processing
                   else @p_limit end;
end;
if @consumers = 1
begin
  set @mine = coalesce((select w.ConsumerPriority from rowlease.Worker as w
                         where w.WorkerId = @p_worker_id), 0);
  if exists (
    select 1 from rowlease.Worker as w
     where w.WorkerId <> @p_worker_id and w.Busy < w.Slots and w.ConsumerPriority > @mine
       and w.HeartbeatTime > dateadd(second, -2, @p_now)
       and @p_queue_name in (select n.value collate Latin1_General_100_BIN2
                               from openjson(w.QueueNames) as n))
    set @room = 0;
end;
if @room <= 0
  set @p_held_back = 1;
if @rate is not null
begin
  select @in_rate = r.room, @p_next = r.next_start
    from rowlease_internal.room_in_rate(@p_queue_name, N'', @rate, @p_now) as r;
  -- Nothing is prefetched, because a claim is a start.
  set @room = (select min(v.room) from (values (@room), (@p_slots), (@in_rate)) as v (room));
end;
if @room > 0
begin
  exec rowlease_internal.wake_declined @p_queue_name, @p_worker_id, @room;
  exec rowlease_internal.claim_carefully @p_queue_name, @p_worker_id, @p_now, @lease_ms, @policy, @room,
                                         @p_slots, @group_rate, @p_leased output, @p_more output;
end;
set @ids = cast(@p_leased as nvarchar(max));
if @rate is not null or @group_rate is not null
  exec rowlease_internal.note_starts @p_queue_name, @rate, @group_rate, @ids;
set @leased = (select count(*) from openjson(@ids));
if @rate is not null and @in_rate > @leased
  set @p_next = null;
else if @rate is not null and @p_next is null
  set @p_next = (select rowlease_internal.add_ms(@p_now, r.period_ms)
                   from rowlease_internal.rate_parts(@rate) as r);
if @broken >= @step or @moved >= @step
  set @p_more = 1;
if @consumers = 1
begin
  update rowlease.Worker
     set Busy = case when Slots - @p_slots + @leased > 0 then Slots - @p_slots + @leased
                     else 0 end,
         HeartbeatTime = @p_now
   where WorkerId = @p_worker_id;
end;
