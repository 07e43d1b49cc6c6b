-- lease_carefully: lease waiting requests when the plain way (lease) cannot.
-- params:   p_worker_id nvarchar(400), p_queue_names nvarchar(max), p_limit int, p_slots int,
--           p_lease_ms bigint, p_leased xml output, p_more bit output, p_wait_ms bigint output
-- returns:  as lease
-- errors:   RL002 unknown queue
-- locks:    the gates of queues with an in-flight limit or a rate, in order of names, waiting up to
--           2 s for each until one is not granted, then not at all; then as claim_carefully: rows
--           of queue, exclusive, in claim order, skipping locked ones
-- why:      first, expired leases are broken and due requests made Pending, a bounded number of
--           each, so that a queue works without maintain. If another session holds the gate of a
--           queue, nothing is claimed from this queue, and the caller should claim again soon.
create or alter procedure rowlease_internal.lease_carefully
  @p_worker_id nvarchar(400), @p_queue_names nvarchar(max), @p_limit int, @p_slots int,
  @p_lease_ms bigint, @p_leased xml output, @p_more bit output, @p_wait_ms bigint output
as
set nocount on;
set xact_abort on;
declare @now datetime2(6), @name nvarchar(255), @queue nvarchar(400);
declare @place int = 0, @left int = @p_limit, @slots int, @held bit = 0;
declare @next datetime2(6), @first datetime2(6), @rate_ms bigint;
declare @again bit, @held_back bit, @granted bit, @patience int = 2000, @of_queue xml;
declare @queues table (Place int not null primary key, QueueName nvarchar(400)
                       collate Latin1_General_100_BIN2);
declare @gates table (QueueName nvarchar(400) collate Latin1_General_100_BIN2 not null primary key,
                      Name nvarchar(255) not null, Shut bit not null);
declare @leased table (Place int identity primary key, RequestId bigint not null);
insert into @queues (Place, QueueName)
select cast(n.[key] as int) + 1, n.value from openjson(@p_queue_names) as n;
declare @count int = @@rowcount;
-- After a gate that is not granted in time, the others are taken only if they are free.
insert into @gates (QueueName, Name, Shut)
select s.QueueName, rowlease_internal.lock_name(N'gate', s.QueueName, N''), 0
  from rowlease.QueueSettings as s
 where (s.MaxInFlight is not null or s.Rate is not null or s.GroupRate is not null)
   and s.QueueName in (select q.QueueName from @queues as q);
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
set @now = rowlease.now();  -- read after the gates, so that no lease begins while its claim waits
set @p_more = 0;
set @p_wait_ms = null;
while @place < @count and @left > 0
begin
  set @place = @place + 1;
  set @queue = (select q.QueueName from @queues as q where q.Place = @place);
  if exists (select 1 from @gates as g where g.QueueName = @queue and g.Shut = 1)
  begin
    set @first = @now;
    continue;
  end;
  set @slots = @p_slots - (@p_limit - @left);
  exec rowlease_internal.dequeue_queue_carefully @queue, @p_worker_id, @now, @p_lease_ms, @left,
                                                 @slots, @of_queue output, @again output,
                                                 @held_back output, @next output;
  if @first is null or @next < @first
    set @first = @next;
  insert into @leased (RequestId)
  select cast(l.value as bigint) from openjson(cast(@of_queue as nvarchar(max))) as l
   order by cast(l.[key] as int);
  set @left = @left - @@rowcount;
  set @p_more = @p_more | @again;
  set @held = @held | @held_back;
end;
if @left = 0
  set @p_more = 1;
if @p_more = 0
begin
  exec rowlease_internal.ms_until_event @p_queue_names, @now, @p_wait_ms output;
  set @rate_ms = (datediff_big(microsecond, @now, @first) + 999) / 1000;
  if @rate_ms < coalesce(@p_wait_ms, @rate_ms + 1)
    set @p_wait_ms = @rate_ms;
  if @held = 1 and coalesce(@p_wait_ms, 500) >= 500
    set @p_wait_ms = 500;  -- a worker of higher priority may have died
end;
set @p_leased = (
  select N'[' + string_agg(cast(l.RequestId as nvarchar(max)), N',') within group (order by l.Place)
         + N']'
    from @leased as l);
