-- finish_idle_batches: finish batches of which no request waits or runs, and make due the requests that wait for them.
-- params:   p_batch_id nvarchar(400) (null: every batch), p_now datetime2(6), p_limit int,
--           p_finished bigint output
-- returns:  p_finished -- how many batches were finished and requests made due
-- locks:    the counts' lock, the locks of the batches, then those of the requests, without waiting;
--           rows of batch, and of queue, skipping locked ones
-- why:      a step of maintain and of finish_batches. One transaction makes the requests due and finishes the batch, so
--           they are due once. The lock of a batch is free when no enqueue adds to it, and the
--           counts' lock keeps other calls from folding. Then a batch has ended if all its counts are
--           folded. If another transaction has locked a waiting request, its batch is finished later.
create or alter procedure rowlease_internal.finish_idle_batches
  @p_batch_id nvarchar(400), @p_now datetime2(6), @p_limit int, @p_finished bigint output
as
set nocount on;
set xact_abort on;
declare @batch nvarchar(100) = N'', @id bigint = 0, @name nvarchar(255), @granted bit;
declare @ended table (BatchId nvarchar(100) collate Latin1_General_100_BIN2 not null primary key);
declare @due table (RequestId bigint not null primary key);
set @p_finished = 0;
insert into @ended (BatchId)
select top (@p_limit) b.BatchId
  from rowlease.Batch as b with (index (batch_idle), forceseek, readpast, readcommittedlock)
 where b.BatchId > N'' and b.NumLive = 0 and b.FinishedTime is null
   and (@p_batch_id is null or b.BatchId = @p_batch_id)
 order by b.BatchId
option (maxdop 1);
if @@rowcount = 0
  return;
exec rowlease_internal.try_lock N'rowlease:depth', @granted output;
if @granted = 0
  return;
while @batch is not null
begin
  set @batch = (select min(e.BatchId) from @ended as e where e.BatchId > @batch);
  set @name = rowlease_internal.lock_name(N'batch', N'', @batch);
  if @batch is not null
    exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 0
    delete from @ended where BatchId = @batch;
end;
delete from @ended
 where BatchId in (select d.LoadId from rowlease.QueueDepth as d with (readpast, readcommittedlock)
                    where d.LoadId is not null);
insert into @due (RequestId)
select top (@p_limit) w.RequestId
  from @ended as e
 inner join rowlease.BatchWait as w with (forceseek (batch_wait_batch (BatchId)))
         on w.BatchId = e.BatchId
 order by w.RequestId;
while @id is not null
begin
  set @id = (select min(d.RequestId) from @due as d where d.RequestId > @id);
  set @name = concat(N'rowlease:r:', @id);
  if @id is not null
    exec rowlease_internal.try_lock @name, @granted output;
  if @granted = 0
    delete from @due where RequestId = @id;
end;
update q
   set DueTime = @p_now,
       Headers = rowlease_internal.batch_headers(
         q.Headers, b.BatchId, b.NumComplete, b.NumFailed, b.NumRequests - b.NumComplete - b.NumFailed)
  from @due as d
 inner join rowlease.BatchWait as w with (index (batch_wait_pkey), forceseek)
         on w.RequestId = d.RequestId
 inner join rowlease.Batch as b with (index (batch_pkey), forceseek)
         on b.BatchId = w.BatchId
 inner join rowlease.Queue as q with (index (queue_pkey), forceseek, rowlock, readpast)
         on q.RequestId = d.RequestId
 where q.Status = 'Scheduled' and q.DueTime = '9999-12-31'
option (loop join, force order, maxdop 1);
set @p_finished = @@rowcount;
delete w
  from @due as d
 inner join rowlease.BatchWait as w with (index (batch_wait_pkey), forceseek, rowlock)
         on w.RequestId = d.RequestId
 where not exists (select 1 from rowlease.Queue as q with (index (queue_pkey), forceseek)
                    where q.RequestId = w.RequestId and q.Status = 'Scheduled'
                      and q.DueTime = '9999-12-31')
option (loop join, force order, maxdop 1);
update b set FinishedTime = @p_now
  from @ended as e
 inner join rowlease.Batch as b with (index (batch_pkey), forceseek, rowlock) on b.BatchId = e.BatchId
 where not exists (select 1 from rowlease.BatchWait as w with (forceseek (batch_wait_batch (BatchId)))
                    where w.BatchId = e.BatchId)
option (loop join, force order, maxdop 1);
set @p_finished = @p_finished + @@rowcount;
