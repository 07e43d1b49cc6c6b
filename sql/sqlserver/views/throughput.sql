-- throughput: a view of how many requests were finished in each minute of the last hour.
-- params:   none
-- returns:  minute (its begin), queue_name, num_complete (requests that were completed), num_cancelled
--           (requests that were cancelled), mean_wait_ms (of the completed: from due to claimed),
--           mean_run_ms (from claimed to completed)
-- errors:   none
-- locks:    none
-- why:      an index by completion_time finds the history of the last hour, and every row of it is
--           read: a million finished requests take about a second. measure_waits costs less, because
--           it reads a limited number. Differences of num_finished in list_queues cost almost
--           nothing. A minute in which nothing was finished has no row.
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
      from (select rowlease.now() as Now) as n
     cross join rowlease.QueueHistory as h
     where h.CompletionTime >= dateadd(minute, datediff(minute, '2000-01-01', n.Now) - 59,
                                       cast('2000-01-01' as datetime2(0)))) as f
 group by f.Minute, f.QueueName;
