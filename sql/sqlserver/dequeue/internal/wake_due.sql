-- wake_due: move scheduled requests that are due to Pending.
-- params:   p_queue_name nvarchar(400), p_now datetime2(6), p_limit int, p_moved int output
-- returns:  p_moved -- how many moved
-- locks:    the requests' groups, without waiting; rows of queue, exclusive, skipping locked ones
-- why:      scheduled rows are not in the claim's index until they are due. The read keeps no
--           locks; see break_expired. Who looks at a group skips locked rows, so whoever changes the
--           status of a request holds its group's lock: see group_is_free.
create or alter procedure rowlease_internal.wake_due
  @p_queue_name nvarchar(400), @p_now datetime2(6), @p_limit int, @p_moved int output
as
set nocount on;
set xact_abort on;
declare @name nvarchar(255), @granted bit;
declare @due table (RequestId bigint not null primary key, LockName nvarchar(255));
declare @moved table (RequestId bigint not null primary key, Priority smallint not null);
insert into @due (RequestId, LockName)
select top (@p_limit) q.RequestId,
       case when q.GroupKey is not null then rowlease_internal.lock_name(N'g', q.QueueName, q.GroupKey) end
  from rowlease.Queue as q
    with (forceseek (queue_scheduled (QueueName)), readpast, readcommittedlock)
 where q.QueueName = @p_queue_name and q.Status = 'Scheduled' and q.DueTime <= @p_now
 order by q.DueTime
option (maxdop 1);
set @p_moved = @@rowcount;
if @p_moved = 0
  return;
set @name = (select min(d.LockName) from @due as d);
while @name is not null
begin
  exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 0
    delete from @due where LockName = @name;
  set @name = (select min(d.LockName) from @due as d where d.LockName > @name);
end;
update rowlease.Queue set Status = 'Pending', Returned = 0
output inserted.RequestId, inserted.Priority into @moved (RequestId, Priority)
  from @due as d
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = d.RequestId
 where Queue.Status = 'Scheduled' and Queue.DueTime <= @p_now
option (loop join, force order, maxdop 1);
set @p_moved = @@rowcount;
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending)
select @p_queue_name, m.Priority, -count(*), count(*) from @moved as m group by m.Priority;
