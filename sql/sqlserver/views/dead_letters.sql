-- dead_letters: a view of the dead letters, grouped by the first line of their error.
-- params:   none
-- returns:  queue_name, kind, error_line (the first line of last_error), num_requests (how many there
--           are), first_time (when the first of them failed for good), last_time (when the last did),
--           last_request_id (one of them: the one that was enqueued last)
-- errors:   none
-- locks:    none
-- why:      from each queue, it reads the newest 2,000, in the order of an index. This bounds its
--           cost, and also num_requests; depth_by_priority counts all.
create or alter view rowlease.DeadLetters as
select f.QueueName, f.Kind, f.ErrorLine, count_big(*) as NumRequests,
       min(f.CompletionTime) as FirstTime, max(f.CompletionTime) as LastTime,
       max(f.RequestId) as LastRequestId
  from (
    select s.QueueName, l.Kind, l.CompletionTime, l.RequestId,
           left(l.LastError, charindex(nchar(10), l.LastError + nchar(10)) - 1) as ErrorLine
      from rowlease.QueueSettings as s
     cross apply (
       select top (2000) q.RequestId, q.Kind, cast(q.LastError as nvarchar(4000)) as LastError,
              q.CompletionTime
         from rowlease.Queue as q
        where q.QueueName = s.QueueName and q.Status = 'Failed'
        order by q.RequestId desc) as l) as f
 group by f.QueueName, f.Kind, f.ErrorLine;
