-- purge_found: delete requests for good, also from the history.
-- params:   p_request_ids nvarchar(max), p_groups nvarchar(max)
-- returns:  nothing
-- errors:   none
-- locks:    rows of queue_history and attempt, exclusive; as unblock_groups; the caller has locked the
--           rows of queue and their groups
-- why:      a running request is not deleted, even if it is named.
create or alter procedure rowlease_internal.purge_found @p_request_ids nvarchar(max), @p_groups nvarchar(max)
as
set nocount on;
set xact_abort on;
declare @ids table (RequestId bigint not null primary key);
insert into @ids (RequestId)
select cast(i.value as bigint) from openjson(@p_request_ids) as i;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Scheduled, Pending, Failed)
select q.QueueName, q.Priority, q.LoadId, -sum(case when q.Status = 'Scheduled' then 1 else 0 end),
       -sum(case when q.Status = 'Pending' then 1 else 0 end),
       -sum(case when q.Status = 'Failed' then 1 else 0 end)
  from @ids as i join rowlease.Queue as q on q.RequestId = i.RequestId
 where q.LockedBy is null group by q.QueueName, q.Priority, q.LoadId;
delete a
  from @ids as i
 inner join rowlease.Attempt as a with (index (attempt_pkey), forceseek, rowlock)
         on a.RequestId = i.RequestId
option (loop join, force order, maxdop 1);
delete q
  from @ids as i
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = i.RequestId
 where q.LockedBy is null
option (loop join, force order, maxdop 1);
delete h
  from @ids as i
 inner join rowlease.QueueHistory as h with (index (queue_history_request), forceseek, rowlock)
         on h.RequestId = i.RequestId
option (loop join, force order, maxdop 1);
exec rowlease_internal.unblock_groups @p_groups;
