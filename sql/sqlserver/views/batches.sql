-- batches: a view of the batches, and of the loads: how many of their requests are finished.
-- params:   none
create or alter view rowlease.Batches as
select t.BatchId, t.NumRequests, t.NumLive, t.NumComplete, t.NumFailed,
       t.NumRequests - t.NumLive - t.NumComplete - t.NumFailed as NumCancelled, t.CreatedTime,
       t.FinishedTime
  from (select b.BatchId, b.NumRequests + coalesce(c.NumRequests, 0) as NumRequests,
               b.NumLive + coalesce(c.NumLive, 0) as NumLive,
               b.NumComplete + coalesce(c.NumComplete, 0) as NumComplete,
               b.NumFailed + coalesce(c.NumFailed, 0) as NumFailed, b.CreatedTime, b.FinishedTime
          from rowlease.Batch as b
          left join (
            select x.LoadId, sum(x.Live) as NumLive, sum(x.NumFinished) as NumComplete,
                   sum(x.Failed) as NumFailed,
                   sum(case when x.Live + x.Failed + x.NumFinished > 0
                            then x.Live + x.Failed + x.NumFinished else 0 end) as NumRequests
              from (select d.LoadId, d.Scheduled + d.Pending + d.Processing as Live, d.Failed,
                           d.NumFinished
                      from rowlease.QueueDepth as d where d.LoadId is not null) as x
             group by x.LoadId) as c on c.LoadId = b.BatchId) as t;
