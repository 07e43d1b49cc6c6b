-- lower_priorities: lower the priority of waiting requests to their queue's maximum.
-- params:   p_queue_name nvarchar(400), p_max_priority int, p_limit int
-- returns:  nothing
-- why:      an enqueue or a promote that commits after the maximum was lowered may leave a request
--           above it. Usually there is none, and checking costs two probes of an index. A claim that
--           has found the row at its old place finds it again by key.
create or alter procedure rowlease_internal.lower_priorities
  @p_queue_name nvarchar(400), @p_max_priority int, @p_limit int
as
set nocount on;
set xact_abort on;
declare @high table (RequestId bigint not null primary key, Priority smallint not null);
declare @lowered table (RequestId bigint not null primary key);
exec rowlease_internal.bring_in_high @p_queue_name, @p_max_priority, @p_limit;
insert into @high (RequestId, Priority)
select top (@p_limit) q.RequestId, q.Priority
  from rowlease.Queue as q
    with (forceseek (queue_pending (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Pending' and q.GroupBlocked = 0
   and q.Priority > @p_max_priority
option (maxdop 1);
if @@rowcount = 0
  return;
update rowlease.Queue set Priority = @p_max_priority, Returned = 1
output inserted.RequestId into @lowered (RequestId)
  from @high as h
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = h.RequestId
 where Queue.Status = 'Pending' and Queue.Priority > @p_max_priority
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Pending)
select @p_queue_name, c.Priority, sum(c.Pending)
  from (select h.Priority, -1 as Pending
          from @high as h join @lowered as l on l.RequestId = h.RequestId
         union all select @p_max_priority, 1 from @lowered as l) as c
 group by c.Priority;
