-- explain: the one reason why a request is not being taken, in words.
-- params:   p_request_id bigint
-- returns:  reason text -- 'unknown' | 'finished' | 'dead_letter' | 'running' | 'expired' |
--           'paused' | 'scheduled' | 'group' | 'in_flight' | 'no_worker' | 'behind' | 'next',
--           words text
-- errors:   none
-- locks:    the counts' lock, shared, if the queue has a limit in flight
-- why:      the first that holds, in the order in which dequeue would meet them. It counts those
--           ahead only up to 10,000.
create or alter procedure rowlease.explain @p_request_id bigint
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queue nvarchar(100), @status varchar(10), @priority int;
declare @due datetime2(6), @by nvarchar(200), @expires datetime2(6), @group nvarchar(200);
declare @attempts int, @max_attempts int, @error nvarchar(max), @completed datetime2(6);
declare @paused bit, @policy varchar(10), @in_flight int, @waiting bigint, @processing bigint;
declare @other bigint, @ahead int, @reason varchar(20), @words nvarchar(max);
select @queue = r.QueueName, @status = r.Status, @priority = r.Priority, @due = r.DueTime,
       @by = r.LockedBy, @expires = r.LockExpiresTime, @group = r.GroupKey, @attempts = r.NumAttempts,
       @max_attempts = r.MaxAttempts, @error = r.LastError, @completed = r.CompletionTime
  from rowlease.Requests as r where r.RequestId = @p_request_id;
select @paused = s.Paused, @policy = s.Policy, @in_flight = s.MaxInFlight
  from rowlease.QueueSettings as s where s.QueueName = @queue;
if @status in ('Scheduled', 'Pending')
begin
  set @other = (
    select min(q.RequestId) from rowlease.Queue as q
     where q.QueueName = @queue and q.GroupKey = @group and q.GroupKey is not null
       and q.Status <> 'Failed' and q.RequestId <> @p_request_id
       and (q.RequestId < @p_request_id or q.Status = 'Processing'));
  if @in_flight is not null
  begin
    begin transaction;
    exec rowlease.sum_depth @queue, @waiting output, @processing output;
    commit transaction;
  end;
  set @ahead = (
    select count(*) from (
      select top (10000) q.RequestId from rowlease.Queue as q
       where q.QueueName = @queue and q.Status = 'Pending' and q.GroupBlocked = 0
         and (q.Priority > @priority or q.Priority = @priority
              and (q.DueTime < @due or q.DueTime = @due and q.RequestId < @p_request_id))) as a);
end;
select @reason = 'unknown', @words = N'there is no such request; it may have been purged'
 where @status is null;
if @status in ('Complete', 'Cancelled')
  select @reason = 'finished',
         @words = concat(N'it is ', @status, N' since ', rowlease.time_text(@completed));
else if @status = 'Failed'
  select @reason = 'dead_letter',
         @words = concat(N'it is a dead letter after ', @attempts, N' of ', @max_attempts,
                         N' attempts: ', @error, N'; revive it with requeue');
else if @status = 'Processing' and @expires > @now
  select @reason = 'running',
         @words = concat(@by, N' holds it until ', rowlease.time_text(@expires),
                         N', and renews that while it lives');
else if @paused = 1
  select @reason = 'paused', @words = concat(N'the queue "', @queue, N'" is paused; resume it');
else if @status = 'Processing'
  select @reason = 'expired',
         @words = concat(N'the lease of ', @by, N' ran out at ', rowlease.time_text(@expires),
                         N'; the next dequeue or maintain takes it back');
else if @status = 'Scheduled' and @due > @now
  select @reason = 'scheduled',
         @words = concat(N'it is due at ', rowlease.time_text(@due), N', in ',
                         rowlease.seconds_text(rowlease.us_until(@now, @due) / 1000000));
else if @other is not null
  select @reason = 'group',
         @words = concat(N'request ', @other, N' of its group "', @group, N'" comes first');
else if @processing >= @in_flight
  select @reason = 'in_flight',
         @words = concat(N'the queue allows ', @in_flight, N' requests in flight, and they are');
else if @status is not null and not exists (
  select 1 from rowlease.Worker as w
   where w.HeartbeatTime > dateadd(second, -30, @now)
     and @queue in (select n.value collate Latin1_General_100_BIN2 from openjson(w.QueueNames) as n))
  select @reason = 'no_worker',
         @words = concat(N'no worker has asked for the queue "', @queue, N'" within 30 s');
else if @status is not null
  select @reason = case when @ahead = 0 then 'next' else 'behind' end,
         @words = case when @ahead = 0 then N'nothing stands in its way: the next dequeue takes it'
                       else concat(@ahead, case when @ahead = 10000 then N' or more' end,
                                   N' requests stand before it (policy ', @policy, N')') end;
select @reason as reason, @words as words;
