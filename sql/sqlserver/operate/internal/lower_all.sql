-- lower_all: lower the priority of every request of a queue to its new maximum.
-- params:   p_queue_name nvarchar(400), p_max_priority int
-- returns:  nothing
-- errors:   none
-- locks:    as bring_in_high; rows of queue above the maximum, exclusive, skipping locked ones
-- why:      counts are kept per priority, so they move with the requests. Each status has its own index.
--           A request that is skipped keeps its priority until it waits: then the next claim lowers it
--           (lower_priorities). So this waits for no row while it holds others; see decision 78. The same
--           is true of what is in the lane past the first 10,000, each of which takes a lock.
create or alter procedure rowlease_internal.lower_all @p_queue_name nvarchar(400), @p_max_priority int
as
set nocount on;
set xact_abort on;
declare @high table (RequestId bigint not null primary key);
declare @lowered table (RequestId bigint not null primary key, Priority smallint not null,
                        Status varchar(10) not null);
exec rowlease_internal.bring_in_high @p_queue_name, @p_max_priority, 10000;
insert into @high (RequestId)
select q.RequestId
  from rowlease.Queue as q with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
   and q.Priority > @p_max_priority
union
select q.RequestId
  from rowlease.Queue as q with (forceseek (queue_group (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.GroupKey is not null and q.Status <> 'Failed'
   and q.Priority > @p_max_priority
union
select q.RequestId
  from rowlease.Queue as q with (forceseek (queue_scheduled (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Scheduled' and q.Priority > @p_max_priority
union
select q.RequestId
  from rowlease.Queue as q with (forceseek (queue_expiring (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Processing' and q.Priority > @p_max_priority
union
select q.RequestId
  from rowlease.Queue as q with (forceseek (queue_failed (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Failed' and q.Priority > @p_max_priority
option (maxdop 1);
update rowlease.Queue set LockToken = LockToken
output inserted.RequestId, inserted.Priority, inserted.Status into @lowered (RequestId, Priority, Status)
  from @high as h
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = h.RequestId
 where Queue.Priority > @p_max_priority
option (loop join, force order, maxdop 1);
update q
   set Priority = @p_max_priority, Returned = case when q.Status = 'Pending' then 1 else q.Returned end
  from @lowered as l
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock, readpast)
         on q.RequestId = l.RequestId
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Processing, Failed)
select @p_queue_name, c.Priority, sum(case when c.Status = 'Scheduled' then c.Sign else 0 end),
       sum(case when c.Status = 'Pending' then c.Sign else 0 end),
       sum(case when c.Status = 'Processing' then c.Sign else 0 end),
       sum(case when c.Status = 'Failed' then c.Sign else 0 end)
  from (select l.Priority, l.Status, -1 as Sign from @lowered as l
         union all select @p_max_priority, l.Status, 1 from @lowered as l) as c
 group by c.Priority;
