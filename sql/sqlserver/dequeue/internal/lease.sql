-- lease: lease waiting requests of several queues; shared by dequeue and exchange.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int, p_slots int,
--           p_lease_ms bigint, p_more bit output, p_wait_ms bigint output
-- returns:  the ids in claim order in the caller's table #leased; p_more, p_wait_ms -- as dequeue
-- errors:   RL001 bad argument, RL002 unknown queue
-- locks:    as dequeue
-- why:      see dequeue.
create or alter procedure rowlease_internal.lease
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int,
  @p_lease_ms bigint, @p_more bit output, @p_wait_ms bigint output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6), @name nvarchar(255), @queue nvarchar(400), @next datetime2(6);
declare @place int = 0, @left int = @p_limit, @slots int, @held bit = 0, @us bigint;
declare @more bit, @held_back bit, @granted bit, @patience int = 2000;
declare @queues table (Place int not null primary key, QueueName nvarchar(400)
                       collate Latin1_General_100_BIN2);
declare @gates table (QueueName nvarchar(400) collate Latin1_General_100_BIN2 not null primary key,
                      Name nvarchar(255) not null, Shut bit not null);
if coalesce(@p_worker_id, N'') = N'' or @p_queue_names is null or @p_limit is null
   or @p_limit not between 1 and 10000 or @p_lease_ms not between 100 and 86400000
  throw 51001,
    N'dequeue needs a worker id, queues, a limit of 1 to 10000 and a lease of 100 to 86400000 ms', 1;
insert into @queues (Place, QueueName)
select cast(n.[key] as int) + 1, n.value from openjson(@p_queue_names) as n;
declare @count int = @@rowcount;
-- Only one locked gate is waited for, because the other queues must not wait for it.
insert into @gates (QueueName, Name, Shut)
select s.QueueName, rowlease_internal.lock_name(N'gate', s.QueueName, N''), 0
  from rowlease.QueueSettings as s
 where s.MaxInFlight is not null and s.QueueName in (select q.QueueName from @queues as q);
set @name = (select min(g.Name) from @gates as g);
while @name is not null
begin
  exec rowlease_internal.try_lock @name, @granted output, @patience;
  if @granted = 0
  begin
    update @gates set Shut = 1 where Name = @name;
    set @patience = 0;
  end;
  set @name = (select min(g.Name) from @gates as g where g.Name > @name);
end;
set @now = rowlease.now();  -- not before the gates: a lease must not run while its claim waits
set @p_more = 0;
while @place < @count and @left > 0
begin
  set @place = @place + 1;
  set @queue = (select q.QueueName from @queues as q where q.Place = @place);
  if exists (select 1 from @gates as g where g.QueueName = @queue and g.Shut = 1)
  begin
    set @held = 1;
    continue;
  end;
  set @slots = coalesce(@p_slots, @p_limit) - (@p_limit - @left);
  exec rowlease_internal.dequeue_one @queue, @p_worker_id, @now, @p_lease_ms, @left, @slots, @more output,
                            @held_back output;
  set @left = @p_limit - (select count(*) from #leased);
  if @more = 1
    set @p_more = 1;
  if @held_back = 1
    set @held = 1;
end;
if @left = 0
  set @p_more = 1;
set @p_wait_ms = null;
if @p_more = 0
begin
  set @next = (
    select min(e.Time) from @queues as q
     cross apply (
       select (select min(d.DueTime) from rowlease.Queue as d with (readpast, readcommittedlock)
                where d.QueueName = q.QueueName and d.Status = 'Scheduled') as Time
        union all
       select (select min(p.LockExpiresTime) from rowlease.Queue as p with (readpast, readcommittedlock)
                where p.QueueName = q.QueueName and p.Status = 'Processing')) as e);
  set @us = rowlease_internal.us_until(@now, @next);
  set @p_wait_ms = case when @us > 0 then (@us + 999) / 1000 when @us <= 0 then 0 end;
  if @held = 1 and coalesce(@p_wait_ms, 500) >= 500
    set @p_wait_ms = 500;  -- the worker that goes first may be dead in 2 s
end;
