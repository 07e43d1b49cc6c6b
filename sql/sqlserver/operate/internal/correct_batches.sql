-- correct_batches: set the counts of batches to the counts of their rows; a part of recount.
-- params:   p_corrected xml output
-- returns:  p_corrected -- the wrong counts, as a JSON array of objects: batch_id, counter
--           ('batch_requests', 'batch_live', 'batch_complete' or 'batch_failed'), was, actual; null: none
-- locks:    rows of batch; the caller has locked the counts and, without row versions, the queue
create or alter procedure rowlease_internal.correct_batches @p_corrected xml output
as
set nocount on;
set xact_abort on;
declare @wrong table (
  BatchId nvarchar(100) collate Latin1_General_100_BIN2 not null primary key,
  WasRequests bigint not null, WasLive bigint not null, WasComplete bigint not null,
  WasFailed bigint not null, Requests bigint not null, Live bigint not null, Complete bigint not null,
  Failed bigint not null);
insert into @wrong (BatchId, WasRequests, WasLive, WasComplete, WasFailed, Requests, Live, Complete,
                    Failed)
select b.BatchId, b.NumRequests, b.NumLive, b.NumComplete, b.NumFailed, b.NumRequests,
       coalesce(f.Live, 0), b.NumComplete, coalesce(f.Failed, 0)
  from rowlease.Batches as b
  left join (select r.LoadId, sum(r.Live) as Live, sum(r.Failed) as Failed
               from (select q.LoadId, case when q.Status <> 'Failed' then 1 else 0 end as Live,
                            case when q.Status = 'Failed' then 1 else 0 end as Failed
                       from rowlease.Queue as q where q.LoadId is not null
                     union all
                     select l.LoadId, 1, 0
                       from rowlease.[Load] as l join rowlease.Lane as a on a.RunNumber = l.RunNumber
                      where l.InLane = 1) as r
              group by r.LoadId) as f on f.LoadId = b.BatchId
 where b.NumLive <> coalesce(f.Live, 0) or b.NumFailed <> coalesce(f.Failed, 0);
update w set Complete = h.NumComplete
  from @wrong as w
 inner join (select h.LoadId, count(*) as NumComplete
               from rowlease.QueueHistory as h
              where h.Status = 'Complete' and h.LoadId in (select i.BatchId from @wrong as i)
              group by h.LoadId) as h on h.LoadId = w.BatchId
 where h.NumComplete > w.Complete;
update @wrong set Requests = Live + Complete + Failed where Requests < Live + Complete + Failed;
update b
   set NumRequests = b.NumRequests + w.Requests - w.WasRequests, NumLive = b.NumLive + w.Live - w.WasLive,
       NumComplete = b.NumComplete + w.Complete - w.WasComplete,
       NumFailed = b.NumFailed + w.Failed - w.WasFailed
  from @wrong as w
 inner join rowlease.Batch as b with (index (batch_pkey), forceseek, rowlock) on b.BatchId = w.BatchId
option (loop join, force order, maxdop 1);
set @p_corrected = rowlease_internal.as_xml((
  select w.BatchId as batch_id, n.Counter as counter, n.Was as was, n.Actual as actual
    from @wrong as w
   cross apply (values (1, 'batch_requests', w.WasRequests, w.Requests), (2, 'batch_live', w.WasLive, w.Live),
                       (3, 'batch_complete', w.WasComplete, w.Complete),
                       (4, 'batch_failed', w.WasFailed, w.Failed)) as n (Place, Counter, Was, Actual)
   where n.Was <> n.Actual
   order by w.BatchId, n.Place
     for json path));
