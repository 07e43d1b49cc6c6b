-- throughput: a view of how many requests were finished in each minute of the last hour.
-- params:   none
-- why:      it reads whole minutes, the newest first, and ends after the minute in which it has read
--           100,000 requests, because a busy database finishes millions in an hour: older minutes have
--           no rows then, as minutes in which nothing was finished.
create or alter view rowlease.Throughput as
select f.Minute, f.QueueName, sum(f.IsComplete) as NumComplete, sum(1 - f.IsComplete) as NumCancelled,
       avg(case when f.IsComplete = 1 then f.WaitMs end) as MeanWaitMs,
       avg(case when f.IsComplete = 1 then f.RunMs end) as MeanRunMs
  from (
    select dateadd(minute, datediff(minute, '2000-01-01', h.CompletionTime),
                   cast('2000-01-01' as datetime2(0))) as Minute,
           h.QueueName, cast(case when h.Status = 'Complete' then 1 else 0 end as bigint) as IsComplete,
           datediff_big(millisecond, h.DueTime, h.LockedTime) as WaitMs,
           datediff_big(millisecond, h.LockedTime, h.CompletionTime) as RunMs
      from (select min(e.CompletionTime) as Since
              from (select top (100000) l.CompletionTime from rowlease.QueueHistory as l
                     where l.CompletionTime >= dateadd(
                             minute, datediff(minute, '2000-01-01', rowlease.now()) - 59,
                             cast('2000-01-01' as datetime2(0)))
                     order by l.CompletionTime desc) as e) as n
     cross join rowlease.QueueHistory as h
     where h.CompletionTime >= dateadd(minute, datediff(minute, '2000-01-01', n.Since),
                                       cast('2000-01-01' as datetime2(0)))) as f
 group by f.Minute, f.QueueName;
