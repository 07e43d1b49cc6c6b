-- diagnose_queues: find queues that are paused, full or late; a part of diagnose.
-- params:   p_now datetime2(6), p_findings xml output
-- returns:  p_findings -- a JSON array of objects: finding, subject, message, action; null: none
-- errors:   51012 as sum_depth
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease_internal.diagnose_queues @p_now datetime2(6), @p_findings xml output
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @queue nvarchar(100) = (select min(s.QueueName) from rowlease.QueueSettings as s);
declare @paused bit, @capacity bigint, @in_flight int, @waiting bigint, @processing bigint, @free bigint;
declare @due datetime2(6), @seconds bigint, @age nvarchar(60), @workers int, @claimed bit;
declare @findings table (Place int identity primary key, Finding varchar(20) not null,
                         Subject nvarchar(200) not null, Message nvarchar(4000) not null,
                         Action nvarchar(4000) not null);
while @queue is not null
begin
  select @paused = s.Paused, @capacity = s.Capacity, @in_flight = s.MaxInFlight
    from rowlease.QueueSettings as s where s.QueueName = @queue;
  begin transaction;
  exec rowlease_internal.sum_depth @queue, @waiting output, @processing output;
  commit transaction;
  set @due = (
    select min(m.DueTime)
      from (select distinct d.Priority from rowlease.QueueDepth as d where d.QueueName = @queue) as p
     cross apply (
       select top (1) q.DueTime from rowlease.Queue as q
        where q.QueueName = @queue and q.Status = 'Pending' and q.GroupBlocked = 0
          and q.Priority = p.Priority
        order by q.DueTime) as m);
  select @due = min(l.PromotedTime)
    from rowlease.[Load] as l
   where l.QueueName = @queue and l.InLane = 1 and (@due is null or l.PromotedTime < @due)
     and exists (select 1 from rowlease.LanePart as p
                   join rowlease.Lane as r with (readpast, readcommittedlock)
                     on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
                  where p.RunNumber = l.RunNumber)
  having count(*) > 0;
  set @seconds = datediff_big(millisecond, @due, @p_now) / 1000;
  set @age = rowlease_internal.seconds_text(@seconds);
  select @workers = count(*), @free = coalesce(sum(w.Slots - w.Busy), 0)
    from rowlease.Workers as w
   where w.Alive = 1
     and @queue in (select n.value collate Latin1_General_100_BIN2 from openjson(w.QueueNames) as n);
  set @claimed = case when exists (
    select 1 from rowlease.Queue as q
     where q.QueueName = @queue and q.Status = 'Processing' and q.LockedTime > dateadd(minute, -1, @p_now))
    then 1 else 0 end;
  if @paused = 1 and @waiting > 0
    insert into @findings (Finding, Subject, Message, Action)
    values ('paused', @queue,
            concat(N'the queue "', @queue, N'" is paused, and ', @waiting,
                   case @waiting when 1 then N' request waits' else N' requests wait' end, N' in it'),
            concat(N'resume it: rowlease queue resume ', @queue));
  if @waiting >= @capacity
    insert into @findings (Finding, Subject, Message, Action)
    values ('full', @queue,
            concat(N'the queue "', @queue, N'" is full: ', @waiting, N' of ', @capacity,
                   N' places are taken, so producers wait or are refused'),
            concat(N'add workers, or raise its capacity: rowlease queue set ', @queue,
                   N' capacity=', 2 * @capacity));
  if @paused = 0 and @seconds > 60 and @free > 0 and (@in_flight is null or @processing < @in_flight)
     and @claimed = 0
    insert into @findings (Finding, Subject, Message, Action)
    values ('stuck', @queue,
            concat(N'a request of the queue "', @queue, N'" has been due for ', @age,
                   N', while live workers have ', @free,
                   case @free when 1 then N' free slot' else N' free slots' end),
            concat(N'find it: select top (1) RequestId from rowlease.Ready where QueueName = N''', @queue,
                   N''' order by DueTime, and ask for its reason: exec rowlease.explain'));
  else if @paused = 0 and @seconds > 3600 and @workers > 0
    insert into @findings (Finding, Subject, Message, Action)
    values ('old', @queue,
            concat(N'the oldest request of the queue "', @queue, N'" has been due for ', @age,
                   case when @processing >= @in_flight then N', and the in-flight limit is reached'
                        else N', and live workers do not keep up' end),
            case when @processing >= @in_flight
                 then concat(N'raise the limit: rowlease queue set ', @queue, N' max_in_flight=', 2 * @in_flight)
                 else N'add workers, or slots to them' end);
  set @queue = (select min(s.QueueName) from rowlease.QueueSettings as s where s.QueueName > @queue);
end;
set @p_findings = rowlease_internal.as_xml((
  select f.Finding as finding, f.Subject as subject, f.Message as message, f.Action as action
    from @findings as f order by f.Place for json path));
