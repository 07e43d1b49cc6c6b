-- explain_waiting: explain why a request that may be claimed has not been claimed; a part of explain.
-- params:   p_request_id bigint, p_now datetime2(6), p_reason varchar(20) output,
--           p_message nvarchar(4000) output
-- returns:  p_reason, p_message -- as explain
-- errors:   51012 as sum_depth
-- locks:    the counts' lock, shared, if the queue has an in-flight limit
-- why:      the requests ahead of this request are counted in a range of the index that claims
--           use.
create or alter procedure rowlease_internal.explain_waiting
  @p_request_id bigint, @p_now datetime2(6), @p_reason varchar(20) output,
  @p_message nvarchar(4000) output
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @queue nvarchar(100), @priority int, @due datetime2(6), @group nvarchar(200), @blocked bit;
declare @policy varchar(10), @in_flight int, @waiting bigint, @processing bigint, @running int;
declare @other bigint, @ahead int, @kind nvarchar(200), @reason varchar(20), @message nvarchar(4000);
declare @load nvarchar(100), @rate varchar(30), @room bigint, @next datetime2(6);
select @queue = r.QueueName, @priority = r.Priority, @due = r.DueTime, @group = r.GroupKey,
       @blocked = r.GroupBlocked, @kind = r.Kind, @load = r.LoadId
  from rowlease.Requests as r where r.RequestId = @p_request_id;
select @policy = s.Policy, @in_flight = s.MaxInFlight, @rate = s.Rate
  from rowlease.QueueSettings as s where s.QueueName = @queue;
exec rowlease_internal.explain_workers @queue, @kind, @p_now, @reason output, @message output;
select @room = r.room, @next = r.next_start
  from rowlease_internal.room_in_rate(@queue, N'', @rate, @p_now) as r;
set @other = (
  select min(q.RequestId) from rowlease.Queue as q
   where q.QueueName = @queue and q.GroupKey = @group and q.GroupKey is not null
     and q.Status <> 'Failed' and q.RequestId <> @p_request_id
     and (q.RequestId < @p_request_id or q.Status = 'Processing'));
if @in_flight is not null
begin
  begin transaction;
  exec rowlease_internal.sum_depth @queue, @waiting output, @processing output;
  commit transaction;
  set @running = (
    select count(*) from (
      select top (@in_flight) q.RequestId from rowlease.Queue as q
       where q.QueueName = @queue and q.Status = 'Processing') as r);
end;
set @ahead = (
  select count(*) from (
    select top (10000) q.RequestId from rowlease.Queue as q
     where q.QueueName = @queue and q.Status = 'Pending' and q.GroupBlocked = 0
       and (q.Priority > @priority or q.Priority = @priority
            and (q.DueTime < @due or q.DueTime = @due and q.RequestId < @p_request_id))) as a)
  + rowlease_internal.num_ahead_in_lane(@p_request_id, @load, @queue, @priority, @due, 10000);
if @ahead > 10000
  set @ahead = 10000;
if @other is not null
  select @p_reason = 'group',
         @p_message = concat(N'request ', @other, N' of its group "', @group, N'" comes first',
                             case q.Status when 'Processing' then N', and is running'
                                  when 'Scheduled'
                                  then concat(N', and is due at ', rowlease_internal.time_text(q.DueTime)) end)
    from rowlease.Queue as q where q.RequestId = @other;
else if @blocked = 1
  select @p_reason = 'group',
         @p_message = concat(N'it waits for a request of its group "', @group,
                           N'" that no longer exists; recount unblocks it');
else if @processing >= @in_flight
  select @p_reason = 'in_flight',
         @p_message = concat(N'max_in_flight of the queue is ', @in_flight, N', and ',
                           case when @running < @in_flight
                                then concat(N'fewer are running (', @running, N'), but more are counted; ',
                                            N'recount corrects that')
                                else N'as many are running' end);
else if @room = 0
  select @p_reason = 'rate',
         @p_message = concat(N'the queue allows ', @rate, N' starts; the next start is possible at ',
                             rowlease_internal.time_text(@next));
else if @reason is not null
  select @p_reason = @reason, @p_message = @message;
else
  select @p_reason = case when @ahead = 0 then 'next' else 'behind' end,
         @p_message = case when @ahead = 0 then N'nothing is ahead of it: the next claim takes it'
                         else concat(@ahead, case @ahead when 1 then N' request is'
                                                         when 10000 then N' or more requests are'
                                                         else N' requests are' end,
                                     N' ahead of it (policy ', @policy, N')') end
                    + coalesce(N'; ' + @message, N'');
