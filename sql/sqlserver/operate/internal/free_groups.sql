-- free_groups: unblock the first request of each group from which an earlier request was deleted by hand.
-- params:   p_queue_name nvarchar(400) (null: every queue), p_corrected xml output
-- returns:  p_corrected -- how many were unblocked, by queue and priority, as correct_counts; null: none
create or alter procedure rowlease_internal.free_groups @p_queue_name nvarchar(400), @p_corrected xml output
as
set nocount on;
set xact_abort on;
declare @first table (RequestId bigint not null primary key);
declare @freed table (RequestId bigint not null primary key, Priority smallint not null,
                      QueueName nvarchar(100) collate Latin1_General_100_BIN2 not null);
set @p_corrected = null;
insert into @first (RequestId)
select f.RequestId
  from (select q.RequestId, q.GroupBlocked, row_number() over (
                 partition by q.QueueName, q.GroupKey order by q.RequestId) as turn
          from rowlease.Queue as q
         where q.GroupKey is not null and q.Status <> 'Failed'
           and (@p_queue_name is null or q.QueueName = @p_queue_name)) as f
 where f.turn = 1 and f.GroupBlocked = 1;
if @@rowcount = 0
  return;
update rowlease.Queue
   set GroupBlocked = 0, Returned = case when Queue.Status = 'Pending' then 1 else Queue.Returned end
output inserted.RequestId, inserted.Priority, inserted.QueueName
  into @freed (RequestId, Priority, QueueName)
  from @first as f
 inner join rowlease.Queue with (index (queue_pkey), forceseek, rowlock, readpast)
         on Queue.RequestId = f.RequestId
 where Queue.GroupBlocked = 1
option (loop join, force order, maxdop 1);
set @p_corrected = rowlease_internal.as_xml((
  select f.QueueName as queue_name, f.Priority as priority, 'group_blocked' as counter, count(*) as was,
         0 as actual
    from @freed as f group by f.QueueName, f.Priority order by f.QueueName, f.Priority desc
     for json path));
