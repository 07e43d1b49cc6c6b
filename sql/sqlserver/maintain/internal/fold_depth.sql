-- fold_depth: combine many rows of counts into few.
-- params:   p_limit int, p_folded bigint output
-- returns:  p_folded -- how many rows were folded; 0 if another session is reading or folding them
-- errors:   none
-- locks:    the counts' lock, without waiting; rows of queue_depth, skipping locked ones
-- why:      counts are appended so that no transaction waits for a counter; this routine adds them
--           up.
create or alter procedure rowlease_internal.fold_depth @p_limit int, @p_folded bigint output
as
set nocount on;
set xact_abort on;
declare @granted bit;
declare @old table (DepthId bigint not null primary key);
declare @folded table (DepthId bigint not null primary key);
set @p_folded = 0;
exec rowlease_internal.try_lock N'rowlease:depth', @granted output;
if @granted = 0
  return;
insert into @old (DepthId)
select top (@p_limit) d.DepthId
  from rowlease.QueueDepth as d with (readpast, readcommittedlock) order by d.DepthId;
insert into rowlease.QueueDepth (QueueName, Priority, Scheduled, Pending, Processing, Failed,
                                 NumFinished, NumFailures)
output inserted.DepthId into @folded (DepthId)
select d.QueueName, d.Priority, sum(d.Scheduled), sum(d.Pending), sum(d.Processing), sum(d.Failed),
       sum(d.NumFinished), sum(d.NumFailures)
  from @old as o
  join rowlease.QueueDepth as d with (forceseek (queue_depth_pkey (DepthId))) on d.DepthId = o.DepthId
 group by d.QueueName, d.Priority
having sum(d.Scheduled) <> 0 or sum(d.Pending) <> 0 or sum(d.Processing) <> 0 or sum(d.Failed) <> 0
    or sum(d.NumFinished) <> 0 or sum(d.NumFailures) <> 0;
delete d
  from @old as o
 inner join rowlease.QueueDepth as d with (index (queue_depth_pkey), forceseek, rowlock)
         on d.DepthId = o.DepthId
option (loop join, force order, maxdop 1);
set @p_folded = @@rowcount;
