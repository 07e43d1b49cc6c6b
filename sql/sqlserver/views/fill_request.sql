-- fill_request: insert into the queue the rows that were inserted into the view `inbox`.
-- params:   none -- a trigger on rowlease.Inbox
-- returns:  trigger
-- errors:   RL002 unknown queue, RL003 bad priority, RL004 bad payload, RL005 queue is full,
--           RL006 no kind, RL016 bad headers; 51019 a name or
--           key ends in a blank
-- locks:    the queue's admission lock if it has a capacity; the dedup keys; held to the caller's commit
-- why:      a program that writes to the inbox gives only the columns of that view. SQL Server has
--           no triggers before an insert, so this trigger is on the view, and rows that routines
--           insert do not fire it. The unique index refuses a dedup key that a live request has.
create or alter trigger rowlease.fill_request on rowlease.Inbox instead of insert
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now(), @queue nvarchar(400), @admitted bit, @keys nvarchar(max);
declare @kind nvarchar(max), @priority int, @payload nvarchar(max), @count bigint;
declare @rows table (
  Place int identity primary key, QueueName nvarchar(400) collate Latin1_General_100_BIN2 not null,
  Kind nvarchar(200), Priority int not null, DueTime datetime2(6) not null, Status varchar(10) not null,
  DedupKey nvarchar(400), GroupKey nvarchar(200), Payload nvarchar(max) not null,
  Headers nvarchar(max));
insert into @rows (QueueName, Kind, Priority, DueTime, Status, DedupKey, GroupKey, Payload, Headers)
select coalesce(i.QueueName, N'default'), i.Kind, coalesce(i.Priority, 0),
       case when i.DueTime > @now then i.DueTime else @now end,
       case when i.DueTime > @now then 'Scheduled' else 'Pending' end,
       i.DedupKey, i.GroupKey, coalesce(i.Payload, N'{}'), i.Headers
  from inserted as i;
if exists (select 1 from @rows as r cross apply (values (r.Kind), (r.DedupKey), (r.GroupKey)) as x (Name)
            where datalength(x.Name) > datalength(rtrim(x.Name)))
  throw 51019, N'a name or key ends in a blank; leave the blank out', 1;
set @queue = N'';
while @queue is not null
begin
  set @queue = (select min(r.QueueName) from @rows as r where r.QueueName > @queue);
  select @count = count(*), @priority = max(r.Priority) from @rows as r where r.QueueName = @queue;
  if @queue is null
    break;
  exec rowlease_internal.check_capacity @queue, @count, @priority, @now, @admitted output;
  set @keys = (select N'[' + string_agg(N'"' + string_escape(r.DedupKey, 'json') + N'"', N',') + N']'
                 from @rows as r where r.QueueName = @queue and r.DedupKey is not null);
  if @keys is not null
    exec rowlease_internal.lock_keys @queue, @keys;
end;
select top (1) @kind = r.Kind, @priority = r.Priority, @payload = r.Payload
  from @rows as r
 where coalesce(r.Kind, N'') = N'' or len(r.Kind) > 200 or r.Priority < 0
    or rowlease_internal.num_bytes(r.Payload) > 1048576 or rowlease_internal.are_arguments(r.Payload) = 0;
if @@rowcount > 0
  exec rowlease_internal.check_request @kind, @priority, @payload, null;
set @payload = (
  select min(r.Payload) from @rows as r
   where exists (select 1 from openjson(r.Payload) as k group by k.[key] having count(*) > 1));
exec rowlease_internal.check_names @payload;
if exists (select 1 from @rows as r where rowlease_internal.are_headers(r.Headers) = 0)
  throw 51016, N'headers must be a JSON object of strings, of at most 8192 bytes', 1;
insert into rowlease.Queue (RequestId, QueueName, Kind, Status, Priority, RequestedTime, DueTime,
                            MaxAttempts, DedupKey, GroupKey, Payload, Headers)
select next value for rowlease.RequestIds over (order by r.Place), s.QueueName, r.Kind, r.Status,
       case when r.Priority < s.MaxPriority then r.Priority else s.MaxPriority end, @now, r.DueTime,
       s.MaxAttempts, r.DedupKey, r.GroupKey, r.Payload, r.Headers
  from @rows as r join rowlease.QueueSettings as s on s.QueueName = r.QueueName
 order by r.Place;
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending)
select c.QueueName, c.Priority, sum(c.Scheduled), sum(1 - c.Scheduled)
  from (select s.QueueName,
               case when r.Priority < s.MaxPriority then r.Priority else s.MaxPriority end as Priority,
               case when r.Status = 'Scheduled' then 1 else 0 end as Scheduled
          from @rows as r join rowlease.QueueSettings as s on s.QueueName = r.QueueName) as c
 group by c.QueueName, c.Priority;
