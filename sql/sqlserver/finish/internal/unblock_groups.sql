-- unblock_groups: unblock the first unfinished request of each given group.
-- params:   p_groups nvarchar(max) -- as lock_groups
-- returns:  nothing
-- locks:    one waiting row of queue per group, exclusive, skipping rows that are not committed; the
--           groups' locks are held already
-- why:      called when a request of a group is finished: until then, the next request is not in
--           the index that claims use. A row that is skipped is of an enqueue that is not committed,
--           and not blocked: see group_is_free.
create or alter procedure rowlease_internal.unblock_groups @p_groups nvarchar(max)
as
set nocount on;
set xact_abort on;
if @p_groups is null
  return;
declare @head table (RequestId bigint not null primary key);
insert into @head (RequestId)
select h.RequestId
  from openjson(@p_groups) with (q nvarchar(100), g nvarchar(200)) as g
 cross apply (
   select top (1) q.RequestId, q.GroupBlocked
     from rowlease.Queue as q
       with (forceseek (queue_group (QueueName, GroupKey)), readpast, readcommittedlock)
    where q.QueueName = g.q collate Latin1_General_100_BIN2
      and q.GroupKey = g.g collate Latin1_General_100_BIN2
      and q.GroupKey is not null and q.Status <> 'Failed'
    order by q.RequestId) as h
 where h.GroupBlocked = 1;
update q set GroupBlocked = 0, Returned = case when q.Status = 'Pending' then 1 else q.Returned end
  from @head as h
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock)
         on q.RequestId = h.RequestId
 where q.GroupBlocked = 1
option (loop join, force order, maxdop 1);
