-- take_group: test whether a claim may lease a request of a group, and lock the group.
-- params:   p_request_id bigint, p_queue_name nvarchar(400), p_group_key nvarchar(400),
--           p_group_rate nvarchar(30), p_now datetime2(6), p_granted bit output
-- returns:  p_granted -- it may
-- errors:   none
-- locks:    the group, without waiting; rows of queue, exclusive, skipping locked ones
-- why:      a request that is behind another of its group becomes blocked, with the next 500 of the
--           group, which are behind, too; so many waiting requests of a group cost few calls. One
--           whose group has used up its rate becomes Scheduled. So it is not in the index of claims,
--           a claim does not step over it, and workers sleep until it is due.
create or alter procedure rowlease_internal.take_group
  @p_request_id bigint, @p_queue_name nvarchar(400), @p_group_key nvarchar(400),
  @p_group_rate nvarchar(30), @p_now datetime2(6), @p_granted bit output
as
set nocount on;
set xact_abort on;
declare @next datetime2(6), @name nvarchar(255) = rowlease_internal.lock_name(N'g', @p_queue_name, @p_group_key);
declare @delayed table (Priority smallint not null);
exec rowlease_internal.try_lock @name, @p_granted output;
if @p_granted = 0
  return;
if rowlease_internal.group_is_free(@p_queue_name, @p_group_key, @p_request_id) = 0
begin
  set @p_granted = 0;
  update rowlease.Queue set GroupBlocked = 1
    from (select top (500) q.RequestId
            from rowlease.Queue as q
                 with (forceseek (queue_group (QueueName, GroupKey, RequestId)), readpast,
                       readcommittedlock)
           where q.QueueName = @p_queue_name and q.GroupKey = @p_group_key and q.GroupKey is not null
             and q.RequestId >= @p_request_id and q.Status <> 'Failed' and q.Status = 'Pending'
             and q.GroupBlocked = 0
           order by q.RequestId) as g
   inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
           on Queue.RequestId = g.RequestId
   where Queue.Status = 'Pending' and Queue.GroupBlocked = 0
  option (loop join, force order, maxdop 1);
  return;
end;
if @p_group_rate is not null
  select @next = r.next_start
    from rowlease_internal.room_in_rate(@p_queue_name, N':' + @p_group_key, @p_group_rate, @p_now) as r
   where r.room = 0;
if @next is null
  return;
set @p_granted = 0;
update rowlease.Queue set Status = 'Scheduled', DueTime = @next, Returned = 0
output inserted.Priority into @delayed (Priority)
  from (select @p_request_id as RequestId) as g
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = g.RequestId
 where Queue.Status = 'Pending' and Queue.GroupBlocked = 0
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Pending, Scheduled)
select @p_queue_name, d.Priority, -1, 1 from @delayed as d;
