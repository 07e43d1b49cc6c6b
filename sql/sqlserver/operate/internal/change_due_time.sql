-- change_due_time: give waiting requests another due time.
-- params:   p_request_ids nvarchar(max), p_now datetime2(6), p_due_time datetime2(6) (now or earlier: now)
-- returns:  nothing
-- why:      a request that is already due keeps its place if it is due now.
create or alter procedure rowlease_internal.change_due_time
  @p_request_ids nvarchar(max), @p_now datetime2(6), @p_due_time datetime2(6)
as
set nocount on;
set xact_abort on;
declare @later bit = case when @p_due_time > @p_now then 1 else 0 end;
declare @old table (RequestId bigint not null primary key, QueueName nvarchar(100) not null,
                    Status varchar(10) not null, Priority smallint not null);
insert into @old (RequestId, QueueName, Status, Priority)
select q.RequestId, q.QueueName, q.Status, q.Priority
  from openjson(@p_request_ids) as i join rowlease.Queue as q on q.RequestId = cast(i.value as bigint)
 where q.Status = 'Scheduled' or @later = 1;
update q
   set DueTime = case when @later = 1 then @p_due_time else @p_now end,
       Returned = case when @later = 1 then 0 else 1 end,
       Status = case when @later = 1 then 'Scheduled' else 'Pending' end
  from @old as o
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = o.RequestId
option (loop join, force order, maxdop 1);
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending)
select o.QueueName, o.Priority,
       sum(@later - case when o.Status = 'Scheduled' then 1 else 0 end),
       sum(1 - @later - case when o.Status = 'Pending' then 1 else 0 end)
  from @old as o group by o.QueueName, o.Priority;
