-- would_be: find the outcome that an operation would have for each request; the dry run of operate.
-- params:   p_verb nvarchar(max)
-- returns:  rows in the caller's table #touched, for the requests in the caller's table #found
-- errors:   none
-- locks:    none
-- why:      a dry run must not hold up workers, so it locks and writes nothing.
create or alter procedure rowlease_internal.would_be @p_verb nvarchar(max)
as
set nocount on;
set xact_abort on;
insert into #touched (RequestId, Outcome)
select f.RequestId,
       case when @p_verb = N'cancel' and r.Status = 'Processing' then 'cancel_requested'
            when @p_verb = N'requeue'
                 and (r.Payload is null or not exists (
                        select 1 from rowlease.QueueSettings as s where s.QueueName = r.QueueName))
            then 'not_found'
            when @p_verb = N'requeue' and r.DedupKey is not null
                 and (exists (select 1 from rowlease.Queue as q
                               where q.QueueName = r.QueueName and q.DedupKey = r.DedupKey
                                 and q.DedupKey is not null and q.Status <> 'Failed')
                      or exists (select 1 from #found as g
                                   join rowlease.Requests as e on e.RequestId = g.RequestId
                                  where e.QueueName = r.QueueName and e.DedupKey = r.DedupKey
                                    and e.RequestId < r.RequestId)) then 'duplicate'
            else 'ok' end
  from #found as f join rowlease.Requests as r on r.RequestId = f.RequestId
option (recompile);
