-- wake_declined: change declined requests of the kinds that a worker knows to Pending.
-- params:   p_queue_name nvarchar(400), p_worker_id nvarchar(400), p_limit bigint
-- locks:    the requests' groups, without waiting; rows of queue, exclusive, skipping locked ones
-- why:      workers that do not know a kind hand its requests on by declining them: the index
--           queue_declined has them until they are due again. Each gets its place in line back,
--           which decline has kept in LockedTime. A worker that lists no kinds waits until they are
--           due. It locks as wake_due does.
create or alter procedure rowlease_internal.wake_declined
  @p_queue_name nvarchar(400), @p_worker_id nvarchar(400), @p_limit bigint
as
set nocount on;
set xact_abort on;
declare @name nvarchar(255), @granted bit, @kinds nvarchar(max);
declare @declined table (RequestId bigint not null primary key, LockName nvarchar(255));
declare @woken table (RequestId bigint not null primary key, Priority smallint not null);
set @kinds = (select w.Kinds
                from rowlease.Worker as w
                  with (forceseek (worker_pkey (WorkerId)), readpast, readcommittedlock)
               where w.WorkerId = @p_worker_id);
insert into @declined (RequestId, LockName)
select top (@p_limit) d.RequestId,
       case when d.GroupKey is not null then rowlease_internal.lock_name(N'g', @p_queue_name, d.GroupKey) end
  from openjson(@kinds) as k
 cross apply (
   select top (@p_limit) q.RequestId, q.GroupKey, q.Priority, q.LockedTime
     from rowlease.Queue as q
       with (forceseek (queue_declined (QueueName, Kind)), readpast, readcommittedlock)
    where q.QueueName = @p_queue_name
      and q.Kind = cast(k.[key] as nvarchar(200)) collate Latin1_General_100_BIN2
      and q.Status = 'Scheduled' and q.Returned = 1
    order by q.Priority desc, q.LockedTime, q.RequestId) as d
 order by d.Priority desc, d.LockedTime, d.RequestId
option (loop join, maxdop 1);
if @@rowcount = 0
  return;
set @name = (select min(d.LockName) from @declined as d);
while @name is not null
begin
  exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 0
    delete from @declined where LockName = @name;
  set @name = (select min(d.LockName) from @declined as d where d.LockName > @name);
end;
update rowlease.Queue set Status = 'Pending', DueTime = Queue.LockedTime
output inserted.RequestId, inserted.Priority into @woken (RequestId, Priority)
  from @declined as d
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = d.RequestId
 where Queue.Status = 'Scheduled' and Queue.Returned = 1
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending)
select @p_queue_name, w.Priority, -count(*), count(*) from @woken as w group by w.Priority;
