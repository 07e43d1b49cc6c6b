-- dead_letters: a view of the dead letters, grouped by the first line of their error without digits.
-- params:   none
-- why:      it reads the newest 10,000, in the order of an index: an equal number of each queue that
--           has any, but at least 100. This bounds its cost, and also num_requests;
--           depth_by_priority counts all.
create or alter view rowlease.DeadLetters as
select f.QueueName, f.Kind, f.ErrorPattern, count_big(*) as NumRequests,
       min(f.CompletionTime) as FirstTime, max(f.CompletionTime) as LastTime,
       max(f.RequestId) as LastRequestId
  from (
    select s.QueueName, l.Kind, l.CompletionTime, l.RequestId,
           rowlease_internal.error_pattern(l.LastError) collate Latin1_General_100_BIN2 as ErrorPattern
      from (
        select s.QueueName, case when count(*) over () > 100 then 100
                                 else 10000 / count(*) over () end as Look
          from rowlease.QueueSettings as s
         where exists (select 1 from rowlease.Queue as q
                        where q.QueueName = s.QueueName and q.Status = 'Failed')) as s
     cross apply (
       select top (s.Look) q.RequestId, q.Kind, q.LastError, q.CompletionTime
         from rowlease.Queue as q
        where q.QueueName = s.QueueName and q.Status = 'Failed'
        order by q.RequestId desc) as l) as f
 group by f.QueueName, f.Kind, f.ErrorPattern;
