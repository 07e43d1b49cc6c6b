-- purge_found: delete requests for good, also from the history.
-- params:   p_groups nvarchar(max)
-- returns:  nothing; the requests are those in the caller's table #found
-- errors:   none
-- locks:    rows of queue_history and attempt, exclusive; as unblock_groups; the caller has locked the
--           rows of queue and their groups
-- why:      a running request is not deleted, even if it is named.
create or alter procedure rowlease_internal.purge_found @p_groups nvarchar(max)
as
set nocount on;
set xact_abort on;
insert into rowlease.QueueDepth (QueueName, Priority, LoadId, Scheduled, Pending, Failed)
select q.QueueName, q.Priority, q.LoadId, -sum(case when q.Status = 'Scheduled' then 1 else 0 end),
       -sum(case when q.Status = 'Pending' then 1 else 0 end),
       -sum(case when q.Status = 'Failed' then 1 else 0 end)
  from #found as f join rowlease.Queue as q on q.RequestId = f.RequestId
 where q.LockedBy is null group by q.QueueName, q.Priority, q.LoadId;
delete from rowlease.Attempt where RequestId in (select f.RequestId from #found as f);
delete q
  from #found as f
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = f.RequestId
 where q.LockedBy is null
option (loop join, force order, maxdop 1);
delete h
  from #found as f
 inner join rowlease.QueueHistory as h with (index (queue_history_request), forceseek, rowlock)
         on h.RequestId = f.RequestId
option (loop join, force order, maxdop 1);
exec rowlease_internal.unblock_groups @p_groups;
