-- list_queues: list every queue with its totals and the age of its oldest request.
-- params:   none
-- locks:    the counts' lock, shared, while they are read
create or alter procedure rowlease.list_queues
as
set nocount on;
set xact_abort on;
set transaction isolation level read committed;
declare @now datetime2(6) = rowlease.now();
declare @counts table (
  QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null, Priority smallint not null,
  Pending bigint not null, NumFinished bigint not null, NumFailures bigint not null,
  DueTime datetime2(6) null);
begin transaction;
exec rowlease_internal.take_lock N'rowlease:depth', 'Shared';
insert into @counts (QueueName, Priority, Pending, NumFinished, NumFailures)
select d.QueueName, d.Priority, sum(d.Pending), sum(d.NumFinished), sum(d.NumFailures)
  from rowlease.QueueDepth as d with (readpast, readcommittedlock)
 group by d.QueueName, d.Priority;
commit transaction;
update c
   set DueTime = (select min(q.DueTime) from rowlease.Queue as q with (readpast, readcommittedlock)
                   where q.QueueName = c.QueueName and q.Priority = c.Priority
                     and q.Status = 'Pending' and q.GroupBlocked = 0)
  from @counts as c where c.Pending > 0;
update c
   set DueTime = coalesce(
         (select min(l.PromotedTime) from rowlease.[Load] as l
           where l.QueueName = c.QueueName and l.InLane = 1
             and (c.DueTime is null or l.PromotedTime < c.DueTime)
             and exists (select 1 from rowlease.LanePart as p
                           join rowlease.Lane as r with (readpast, readcommittedlock)
                             on r.RunNumber = p.RunNumber and r.Priority = p.Priority and r.Part = p.Part
                          where p.RunNumber = l.RunNumber and p.Priority = c.Priority)), c.DueTime)
  from @counts as c
 where c.Pending > 0
   and exists (select 1 from rowlease.[Load] as l where l.QueueName = c.QueueName and l.InLane = 1);
select s.QueueName as queue_name, s.Paused as paused, coalesce(t.NumFinished, 0) as num_finished,
       coalesce(t.NumFailures, 0) as num_failures,
       case when t.DueTime < @now then datediff_big(microsecond, t.DueTime, @now) / 1000
            when t.DueTime >= @now then 0 end as oldest_ms
  from rowlease.QueueSettings as s
  left join (select c.QueueName, sum(c.NumFinished) as NumFinished,
                    sum(c.NumFailures) as NumFailures, min(c.DueTime) as DueTime
               from @counts as c group by c.QueueName) as t on t.QueueName = s.QueueName
 order by s.QueueName;
