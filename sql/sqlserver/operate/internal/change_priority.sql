-- change_priority: give requests another priority, at most the maximum of their queue.
-- params:   p_request_ids nvarchar(max), p_priority int
-- returns:  nothing
-- why:      counts are kept per priority, so they move with the requests.
create or alter procedure rowlease_internal.change_priority @p_request_ids nvarchar(max), @p_priority int
as
set nocount on;
set xact_abort on;
declare @old table (RequestId bigint not null primary key, QueueName nvarchar(100) not null,
                    Status varchar(10) not null, Priority smallint not null, NewPriority smallint not null);
insert into @old (RequestId, QueueName, Status, Priority, NewPriority)
select q.RequestId, q.QueueName, q.Status, q.Priority,
       case when @p_priority < s.MaxPriority then @p_priority else s.MaxPriority end
  from openjson(@p_request_ids) as i
  join rowlease.Queue as q on q.RequestId = cast(i.value as bigint)
  join rowlease.QueueSettings as s on s.QueueName = q.QueueName;
delete from @old where Priority = NewPriority;
update q
   set Priority = o.NewPriority, Returned = case when q.Status = 'Pending' then 1 else q.Returned end
  from @old as o
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = o.RequestId
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Processing, Failed)
select c.QueueName, c.Priority, sum(case when c.Status = 'Scheduled' then c.Sign else 0 end),
       sum(case when c.Status = 'Pending' then c.Sign else 0 end),
       sum(case when c.Status = 'Processing' then c.Sign else 0 end),
       sum(case when c.Status = 'Failed' then c.Sign else 0 end)
  from (select o.QueueName, o.Priority, o.Status, -1 as Sign from @old as o
         union all select o.QueueName, o.NewPriority, o.Status, 1 from @old as o) as c
 group by c.QueueName, c.Priority;
