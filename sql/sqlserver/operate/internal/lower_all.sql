-- lower_all: lower the priority of every request of a queue to its new maximum.
-- params:   p_queue_name nvarchar(400), p_max_priority int
-- returns:  nothing
-- errors:   none
-- locks:    rows of queue above the maximum, exclusive
-- why:      counts are kept per priority, so they move with the requests.
create or alter procedure rowlease_internal.lower_all @p_queue_name nvarchar(400), @p_max_priority int
as
set nocount on;
set xact_abort on;
declare @lowered table (RequestId bigint not null primary key, Priority smallint not null,
                        Status varchar(10) not null);
update rowlease.Queue with (rowlock) set LockToken = LockToken
output inserted.RequestId, inserted.Priority, inserted.Status into @lowered (RequestId, Priority, Status)
 where QueueName = @p_queue_name and Priority > @p_max_priority;
update rowlease.Queue
   set Priority = @p_max_priority, Returned = case when Status = 'Pending' then 1 else 0 end
 where RequestId in (select l.RequestId from @lowered as l);
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Processing, Failed)
select @p_queue_name, c.Priority, sum(case when c.Status = 'Scheduled' then c.Sign else 0 end),
       sum(case when c.Status = 'Pending' then c.Sign else 0 end),
       sum(case when c.Status = 'Processing' then c.Sign else 0 end),
       sum(case when c.Status = 'Failed' then c.Sign else 0 end)
  from (select l.Priority, l.Status, -1 as Sign from @lowered as l
         union all select @p_max_priority, l.Status, 1 from @lowered as l) as c
 group by c.Priority;
