-- fold_depth: combine many rows of counts into few.
-- params:   p_limit int, p_folded bigint output
-- returns:  p_folded -- how many rows were folded; 0 if another session is reading or folding them
-- locks:    the counts' lock, without waiting; rows of queue_depth, skipping locked ones; rows of batch
-- why:      counts are appended so that no transaction waits for a counter; this routine adds them
--           up, also those of batches. The sum of a row of counts is above 0 if it enqueued requests,
--           and below 0 if it cancelled or purged them. All other changes move requests from one count
--           to another.
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
       case when sum(d.NumFinished) < 2305843009213693952 then sum(d.NumFinished)
            else 2305843009213693951 end,
       case when sum(d.NumFailures) < 2305843009213693952 then sum(d.NumFailures)
            else 2305843009213693951 end
  from @old as o
  join rowlease.QueueDepth as d with (forceseek (queue_depth_pkey (DepthId))) on d.DepthId = o.DepthId
 group by d.QueueName, d.Priority
having sum(d.Scheduled) <> 0 or sum(d.Pending) <> 0 or sum(d.Processing) <> 0 or sum(d.Failed) <> 0
    or sum(d.NumFinished) <> 0 or sum(d.NumFailures) <> 0;
update b
   set NumRequests = b.NumRequests + c.NumRequests, NumLive = b.NumLive + c.NumLive,
       NumComplete = b.NumComplete + c.NumComplete, NumFailed = b.NumFailed + c.NumFailed
  from (select x.LoadId, sum(case when x.Live + x.Failed + x.NumFinished > 0
                                  then x.Live + x.Failed + x.NumFinished else 0 end) as NumRequests,
               sum(x.Live) as NumLive, sum(x.NumFinished) as NumComplete, sum(x.Failed) as NumFailed
          from (select d.LoadId, d.Scheduled + d.Pending + d.Processing as Live, d.Failed, d.NumFinished
                  from @old as o
                  join rowlease.QueueDepth as d with (forceseek (queue_depth_pkey (DepthId)))
                    on d.DepthId = o.DepthId
                 where d.LoadId is not null) as x
         group by x.LoadId) as c
 inner join rowlease.Batch as b with (index (batch_pkey), forceseek, rowlock) on b.BatchId = c.LoadId
option (loop join, force order, maxdop 1);
delete d
  from @old as o
 inner join rowlease.QueueDepth as d with (index (queue_depth_pkey), forceseek, rowlock)
         on d.DepthId = o.DepthId
option (loop join, force order, maxdop 1);
set @p_folded = @@rowcount;
